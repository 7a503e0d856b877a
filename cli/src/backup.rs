//! `lifesign apiserver --backup` and `--restore`: all objects of a plane in a file, and back.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use apiserver::{BACKUP_PATH, Backup, FileStore, Restored, StoreError};
use http_body_util::BodyExt;
use runtime::Client;
use runtime::files::create_beside;

use crate::config::{DataDir, read_kubeconfig};
use crate::error::Failure;

/// Writes a backup of a data directory, whether a server runs there or not.
pub(crate) async fn backup(data_dir: &DataDir, file: &Path) -> Result<(), Failure> {
    let directory = data_dir.path()?;
    if !directory.join("store.redb").exists() {
        let why = format!("{}: there is no data of a plane", directory.display());
        return Err(Failure::usage(why).hint("say where it is with --data-dir"));
    }
    let (unfinished, handle) = create_beside(file).map_err(|error| of_file(file, &error))?;
    let written = async {
        let mut to = BufWriter::new(handle);
        match FileStore::open(&directory) {
            Ok(store) => {
                Backup::of(store.snapshot().map_err(Failure::usage)?).write(&mut to).map_err(|error| of_file(file, &error))?;
            }
            Err(StoreError::Locked(_)) => from_server(&directory, &mut to, file).await?,
            Err(error) => return Err(Failure::usage(error)),
        }
        let handle = to.into_inner().map_err(|error| of_file(file, error.error()))?;
        handle.sync_all().map_err(|error| of_file(file, &error))?;
        // What cannot be restored is no backup: better to know now.
        let restored = read(&unfinished)?;
        std::fs::rename(&unfinished, file).map_err(|error| of_file(file, &error))?;
        Ok(restored)
    };
    let restored = written.await.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))?;
    println!("backup {}: {} objects, revision {}", file.display(), restored.objects.len(), restored.revision);
    Ok(())
}

/// Asks the server that runs on a data directory.
async fn from_server(directory: &Path, to: &mut impl Write, file: &Path) -> Result<(), Failure> {
    let config = read_kubeconfig(&directory.join("kubeconfig"), "lifesign-backup", "is the plane still starting?").await?;
    let client = Client::try_from(config).map_err(Failure::usage)?;
    let request = http::Request::get(BACKUP_PATH).body(runtime::Body::empty()).map_err(Failure::bug)?;
    let answer = client.send(request).await.map_err(|error| Failure::unreachable(runtime::chain(&error)))?;
    if !answer.status().is_success() {
        return Err(Failure::usage(format!("the server of {} gives no backup: {}", directory.display(), answer.status())));
    }
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::unreachable(error.to_string()))?;
        if let Some(bytes) = frame.data_ref() {
            to.write_all(bytes).map_err(|error| of_file(file, &error))?;
        }
    }
    Ok(())
}

/// Makes the data of a plane from a backup; the directory must have none.
pub(crate) fn restore(data_dir: &DataDir, file: &Path) -> Result<(), Failure> {
    let restored = read(file)?;
    let directory = data_dir.claim()?;
    FileStore::restore(&directory, &restored).map_err(Failure::usage)?;
    println!("restored {}: {} objects, revision {}", directory.display(), restored.objects.len(), restored.revision);
    Ok(())
}

fn read(file: &Path) -> Result<Restored, Failure> {
    let handle = File::open(file).map_err(|error| of_file(file, &error))?;
    Restored::read(BufReader::new(handle)).map_err(|error| of_file(file, &error))
}

fn of_file(file: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("{}: {error}", file.display()))
}
