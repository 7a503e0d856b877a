# One static binary and nothing else. Build it first:
#   RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target x86_64-unknown-linux-gnu -p lifesign
#   docker build -t lifesign:0.1.0 .
FROM scratch
COPY target/x86_64-unknown-linux-gnu/release/lifesign /usr/local/bin/lifesign
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/lifesign"]
