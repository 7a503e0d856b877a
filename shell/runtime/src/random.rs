//! Randomness of the operating system, for the generators of cores.

/// Returns a seed that nobody can guess.
pub fn random_seed() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}
