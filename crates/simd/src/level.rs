//! Detection of the instructions of this machine.

/// Instructions that were found on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level(pub(crate) Kind);

// INVARIANT: a kind is created only after its features were found, because its code is undefined elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "kinds of another architecture"))]
pub(crate) enum Kind {
    /// Instructions of every machine.
    Portable,
    /// 256 bits, with fused additions.
    Avx2,
    /// AVX2 with dot products of bytes.
    AvxVnni,
    /// 512 bits, with dot products of bytes.
    Avx512Vnni,
}

impl Level {
    /// Instructions of every machine.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// Returns all levels of this machine, the widest last.
    pub fn all() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut, reason = "nothing to add there"))]
        let mut all = vec![Self::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            all.push(Self(Kind::Avx2));
            if std::arch::is_x86_feature_detected!("avxvnni") {
                all.push(Self(Kind::AvxVnni));
            }
            if std::arch::is_x86_feature_detected!("avx512f")
                && std::arch::is_x86_feature_detected!("avx512bw")
                && std::arch::is_x86_feature_detected!("avx512vl")
                && std::arch::is_x86_feature_detected!("avx512dq")
                && std::arch::is_x86_feature_detected!("avx512vnni")
            {
                all.push(Self(Kind::Avx512Vnni));
            }
        }
        all
    }

    /// Returns the widest level of this machine.
    pub fn best() -> Self {
        Self::all().last().copied().unwrap_or(Self::PORTABLE)
    }

    /// Returns true if products of bytes are faster here than products of floats.
    pub fn multiplies_bytes(self) -> bool {
        self.0 != Kind::Portable
    }

    /// Returns the name of the level.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            Kind::Avx2 => "AVX2",
            Kind::AvxVnni => "AVX-VNNI",
            Kind::Avx512Vnni => "AVX-512 VNNI",
        }
    }
}

/// Makes a function of a `Level` from a generic body, which is compiled for the width of each level.
macro_rules! widest {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? => $body:ident) => {
        $(#[$meta])*
        #[allow(unsafe_code, reason = "calls what is compiled for features that were found")]
        #[allow(clippy::too_many_arguments, reason = "slices that lie side by side")]
        $vis fn $name(level: $crate::Level, $($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
                #[allow(clippy::too_many_arguments, reason = "as the function itself")]
                fn wide($($argument: $type),*) $(-> $result)? {
                    $body::<true>($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn middle($($argument: $type),*) $(-> $result)? {
                    $body::<true>($($argument),*)
                }
                match level.0 {
                    // SAFETY: a level of this kind is created only after its features were found.
                    $crate::level::Kind::Avx512Vnni => return unsafe { wide($($argument),*) },
                    // SAFETY: as above.
                    $crate::level::Kind::Avx2 | $crate::level::Kind::AvxVnni => return unsafe { middle($($argument),*) },
                    $crate::level::Kind::Portable => {}
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = level;
            $body::<false>($($argument),*)
        }
    };
}
pub(crate) use widest;
