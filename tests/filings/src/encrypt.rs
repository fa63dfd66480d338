//! The standard security handler of PDF: 128-bit RC4 (revision 3) and 256-bit AES (revision 6).
//!
//! Source: ISO 32000-2, 7.6.4 (algorithms 1, 1.A, 2, 2.A, 2.B, 3, 5, 8, 9, 10). All salts and keys derive
//! from the seed, because these files are not meant to be secure.

use aes::cipher::block_padding::{NoPadding, Pkcs7};
use aes::cipher::{BlockModeEncrypt, KeyIvInit};
use md5::{Digest, Md5};
use sha2::{Sha256, Sha384, Sha512};

use crate::Encryption;
use crate::pdf::hex;
use crate::random::Rng;

// Permits everything.
const PERMISSIONS: i32 = -4;

#[rustfmt::skip]
const PADDING: [u8; 32] = [
    0x28, 0xbf, 0x4e, 0x5e, 0x4e, 0x75, 0x8a, 0x41, 0x64, 0x00, 0x4e, 0x56, 0xff, 0xfa, 0x01, 0x08,
    0x2e, 0x2e, 0x00, 0xb6, 0xd0, 0x68, 0x3e, 0x80, 0x2f, 0x0c, 0xa9, 0xfe, 0x64, 0x53, 0x69, 0x7a,
];

/// A key and its use.
pub(crate) enum Cipher {
    /// File key and dictionary.
    Rc4 { key: [u8; 16], dictionary: String },
    /// File key, seed of the initialization vectors, and dictionary.
    Aes {
        key: [u8; 32],
        vectors: u64,
        dictionary: String,
    },
}

impl Cipher {
    /// A cipher for a file with this identifier.
    pub(crate) fn new(encryption: &Encryption, id: &[u8; 16], rng: &mut Rng) -> Self {
        match encryption {
            Encryption::EmptyUserRc4 => Self::rc4(id),
            Encryption::EmptyUserAes256 => Self::aes(b"", rng),
            Encryption::Password(password) => Self::aes(password.as_bytes(), rng),
        }
    }

    pub(crate) fn dictionary(&self) -> String {
        match self {
            Cipher::Rc4 { dictionary, .. } | Cipher::Aes { dictionary, .. } => dictionary.clone(),
        }
    }

    /// `data` encrypted as a string or stream of `object`.
    pub(crate) fn encrypt(&self, object: usize, data: &[u8]) -> Vec<u8> {
        match self {
            Cipher::Rc4 { key, .. } => {
                let number = (object as u32).to_le_bytes();
                let own = md5(&[key, &number[..3], &[0, 0]]);
                rc4(&own, data)
            }
            Cipher::Aes { key, vectors, .. } => {
                let vector = Rng::new(
                    vectors ^ (object as u64) << 20 ^ data.len() as u64,
                    "vector",
                )
                .bytes::<16>();
                let mut out = vector.to_vec();
                let encryptor = cbc::Encryptor::<aes::Aes256>::new(key.into(), &vector.into());
                out.extend(encryptor.encrypt_padded_vec::<Pkcs7>(data));
                out
            }
        }
    }

    fn rc4(id: &[u8; 16]) -> Self {
        let mut owner_key = md5(&[b"owner", &PADDING[..27]]);
        for _ in 0..50 {
            owner_key = md5(&[&owner_key]);
        }
        let owner = rc4_twenty_rounds(&owner_key, &PADDING);
        let permissions = PERMISSIONS.to_le_bytes();
        let mut key = md5(&[&PADDING, &owner, &permissions, id]);
        for _ in 0..50 {
            key = md5(&[&key]);
        }
        let mut user = rc4_twenty_rounds(&key, &md5(&[&PADDING, id]));
        user.resize(32, 0);
        let dictionary = format!(
            "<</Filter/Standard/V 2/R 3/Length 128/P {PERMISSIONS}/O<{}>/U<{}>>>",
            hex(&owner),
            hex(&user)
        );
        Cipher::Rc4 { key, dictionary }
    }

    fn aes(password: &[u8], rng: &mut Rng) -> Self {
        let key = rng.bytes::<32>();
        let (user, user_key) = entry(password, &[], &key, rng);
        let (owner, owner_key) = entry(b"owner", &user, &key, rng);
        let mut permissions = [0xff_u8; 16];
        permissions[..4].copy_from_slice(&PERMISSIONS.to_le_bytes());
        permissions[8..12].copy_from_slice(b"Tadb");
        permissions[12..].copy_from_slice(&rng.bytes::<4>());
        // One block in CBC mode with a zero vector equals ECB mode.
        let permissions = cbc256(&key, &permissions);
        let dictionary = format!(
            "<</Filter/Standard/V 5/R 6/Length 256/P {PERMISSIONS}/CF<</StdCF<</CFM/AESV3/AuthEvent/DocOpen/Length 32>>>>/StmF/StdCF/StrF/StdCF/O<{}>/U<{}>/OE<{}>/UE<{}>/Perms<{}>>>",
            hex(&owner),
            hex(&user),
            hex(&owner_key),
            hex(&user_key),
            hex(&permissions)
        );
        Cipher::Aes {
            key,
            vectors: rng.next_u64(),
            dictionary,
        }
    }
}

// 48 bytes to verify a password, and the file key encrypted with it.
fn entry(password: &[u8], user: &[u8], key: &[u8; 32], rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let check = rng.bytes::<8>();
    let salt = rng.bytes::<8>();
    let mut entry = hash_2b(password, &check, user).to_vec();
    entry.extend(check);
    entry.extend(salt);
    (entry, cbc256(&hash_2b(password, &salt, user), key))
}

// Algorithm 2.B.
fn hash_2b(password: &[u8], salt: &[u8], user: &[u8]) -> [u8; 32] {
    let mut k = Sha256::digest([password, salt, user].concat()).to_vec();
    let mut round = 0;
    loop {
        let block = [password, &k, user].concat().repeat(64);
        let mut key = [0; 16];
        let mut vector = [0; 16];
        key.copy_from_slice(&k[..16]);
        vector.copy_from_slice(&k[16..32]);
        let e = cbc::Encryptor::<aes::Aes128>::new(&key.into(), &vector.into())
            .encrypt_padded_vec::<NoPadding>(&block);
        k = match e[..16].iter().map(|&byte| u32::from(byte)).sum::<u32>() % 3 {
            0 => Sha256::digest(&e).to_vec(),
            1 => Sha384::digest(&e).to_vec(),
            _ => Sha512::digest(&e).to_vec(),
        };
        round += 1;
        let last = i32::from(e.last().copied().unwrap_or_default());
        if round >= 64 && last <= round - 32 {
            break;
        }
    }
    let mut out = [0; 32];
    out.copy_from_slice(&k[..32]);
    out
}

fn cbc256(key: &[u8; 32], data: &[u8]) -> Vec<u8> {
    cbc::Encryptor::<aes::Aes256>::new(key.into(), &[0; 16].into())
        .encrypt_padded_vec::<NoPadding>(data)
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    Md5::digest(parts.concat()).into()
}

// RC4 with the key, then with nineteen variations of it.
fn rc4_twenty_rounds(key: &[u8; 16], data: &[u8]) -> Vec<u8> {
    (0..20u8).fold(data.to_vec(), |data, n| {
        rc4(&key.map(|byte| byte ^ n), &data)
    })
}

fn rc4(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut state: [u8; 256] = std::array::from_fn(|n| n as u8);
    let mut j = 0u8;
    for i in 0..256 {
        j = j.wrapping_add(state[i]).wrapping_add(key[i % key.len()]);
        state.swap(i, usize::from(j));
    }
    let mut i = 0u8;
    let mut j = 0u8;
    let mut step = |byte: &u8| {
        i = i.wrapping_add(1);
        j = j.wrapping_add(state[usize::from(i)]);
        state.swap(usize::from(i), usize::from(j));
        byte ^ state[usize::from(state[usize::from(i)].wrapping_add(state[usize::from(j)]))]
    };
    data.iter().map(&mut step).collect()
}
