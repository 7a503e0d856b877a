# One static binary and nothing else. Build it first:
#   deploy/static
#   docker build -t lifesign:0.1.0 .
FROM scratch
COPY target/x86_64-unknown-linux-gnu/release/lifesign /usr/local/bin/lifesign
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/lifesign"]
