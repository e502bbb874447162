//! Implementation with the instructions of x86-64. No other module of this crate reads through pointers.

#![allow(
    unsafe_code,
    reason = "loads of vectors, and calls of what is compiled for features that were found"
)]
#![allow(clippy::cast_ptr_alignment, reason = "the loads take any alignment")]

use std::arch::x86_64::{
    __m256, __m256i, __m512, __m512i, _mm256_add_epi32, _mm256_and_si256, _mm256_broadcast_ss,
    _mm256_dpbusd_avx_epi32, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setzero_ps, _mm256_setzero_si256, _mm256_slli_epi16,
    _mm256_srai_epi16, _mm256_srli_epi16, _mm256_storeu_ps, _mm256_storeu_si256, _mm512_dpbusd_epi32,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_setzero_si512, _mm512_storeu_ps, _mm512_storeu_si512,
};

use crate::float::{Grid, WIDTH};
use crate::level::Kind;
use crate::matrix::{LINES, Line, Tile};

/// Computes the sums of up to six rows with one panel. The caller has checked that rows and panel
/// are whole.
pub(crate) fn sums(kind: Kind, rows: &[u8], stride: usize, panel: &[Line], tile: &mut Tile) {
    let count = rows.len() / stride.max(1);
    assert!(count <= tile.len() && panel.len() == stride / 4 * LINES, "it fits the tile");
    macro_rules! by_count {
        ($function:ident) => {
            // SAFETY: a kind is created only after its features were found; rows and panel are
            // whole, as asserted.
            match count {
                1 => unsafe { $function::<1>(rows, stride, panel, tile) },
                2 => unsafe { $function::<2>(rows, stride, panel, tile) },
                3 => unsafe { $function::<3>(rows, stride, panel, tile) },
                4 => unsafe { $function::<4>(rows, stride, panel, tile) },
                5 => unsafe { $function::<5>(rows, stride, panel, tile) },
                6 => unsafe { $function::<6>(rows, stride, panel, tile) },
                _ => {}
            }
        };
    }
    match kind {
        Kind::Avx512Vnni => by_count!(sums_512),
        Kind::AvxVnni => by_count!(sums_vnni),
        Kind::Avx2 | Kind::Portable => by_count!(sums_256),
    }
}

/// Reads four bytes of a row as one number.
#[inline(always)]
#[allow(clippy::inline_always, reason = "one load within the innermost loop")]
unsafe fn four(rows: &[u8], at: usize) -> i32 {
    // SAFETY: the caller stays within `rows`.
    unsafe { rows.as_ptr().add(at).cast::<i32>().read_unaligned() }
}

/// # Safety
/// `rows` has `R` rows of `stride` bytes, and `panel` has `stride / 4 * LINES` lines.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn sums_512<const R: usize>(rows: &[u8], stride: usize, panel: &[Line], tile: &mut Tile) {
    let mut sums: [[__m512i; LINES]; R] = [[_mm512_setzero_si512(); LINES]; R];
    for step in 0..stride / 4 {
        // SAFETY: `step` counts the groups of four in a row, and the panel has `LINES` lines for each.
        let lines = unsafe { panel.as_ptr().add(step * LINES) };
        let mut weights = [_mm512_setzero_si512(); LINES];
        for (place, weights) in weights.iter_mut().enumerate() {
            // SAFETY: as above.
            *weights = unsafe { _mm512_loadu_si512(lines.add(place).cast()) };
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: `row` is less than `R`, and `step * 4 + 4` at most `stride`.
            let bytes = _mm512_set1_epi32(unsafe { four(rows, row * stride + step * 4) });
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = _mm512_dpbusd_epi32(*sum, bytes, weights);
            }
        }
    }
    for (out, sums) in tile.iter_mut().zip(sums) {
        for (out, sum) in out.as_chunks_mut::<16>().0.iter_mut().zip(sums) {
            // SAFETY: `out` has sixteen numbers of 32 bits.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), sum) };
        }
    }
}

/// # Safety
/// The conditions of `sums_512` apply.
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn sums_vnni<const R: usize>(rows: &[u8], stride: usize, panel: &[Line], tile: &mut Tile) {
    for line in 0..LINES {
        let mut sums: [[__m256i; 2]; R] = [[_mm256_setzero_si256(); 2]; R];
        for step in 0..stride / 4 {
            // SAFETY: `step` counts the groups of four in a row, and the panel has `LINES` lines of
            // 64 bytes for each.
            let weights = unsafe { halves(panel, step * LINES + line) };
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: `row` is less than `R`, and `step * 4 + 4` at most `stride`.
                let bytes = _mm256_set1_epi32(unsafe { four(rows, row * stride + step * 4) });
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    *sum = _mm256_dpbusd_avx_epi32(*sum, bytes, weights);
                }
            }
        }
        put(tile, line, sums);
    }
}

/// # Safety
/// The conditions of `sums_512` apply.
#[target_feature(enable = "avx2")]
unsafe fn sums_256<const R: usize>(rows: &[u8], stride: usize, panel: &[Line], tile: &mut Tile) {
    // The products have 16 bits, because those of 8 bits are added with saturation.
    let low = _mm256_set1_epi16(0xff);
    for line in 0..LINES {
        let mut sums: [[__m256i; 2]; R] = [[_mm256_setzero_si256(); 2]; R];
        for step in 0..stride / 4 {
            // SAFETY: `step` counts the groups of four in a row, and the panel has `LINES` lines of
            // 64 bytes for each.
            let weights = unsafe { halves(panel, step * LINES + line) };
            let even = weights.map(|weights| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(weights)));
            let odd = weights.map(|weights| _mm256_srai_epi16::<8>(weights));
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: `row` is less than `R`, and `step * 4 + 4` at most `stride`.
                let bytes = _mm256_set1_epi32(unsafe { four(rows, row * stride + step * 4) });
                let (first, second) = (_mm256_and_si256(bytes, low), _mm256_srli_epi16::<8>(bytes));
                for (sum, (even, odd)) in sums.iter_mut().zip(even.into_iter().zip(odd)) {
                    let both =
                        _mm256_add_epi32(_mm256_madd_epi16(first, even), _mm256_madd_epi16(second, odd));
                    *sum = _mm256_add_epi32(*sum, both);
                }
            }
        }
        put(tile, line, sums);
    }
}

/// Returns both halves of a line.
///
/// # Safety
/// `line` is the index of one of `lines`.
#[target_feature(enable = "avx2")]
unsafe fn halves(lines: &[Line], line: usize) -> [__m256i; 2] {
    // SAFETY: a line has 64 bytes.
    unsafe {
        let start = lines.as_ptr().add(line).cast::<__m256i>();
        [_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))]
    }
}

#[target_feature(enable = "avx2")]
fn put<const R: usize>(tile: &mut Tile, line: usize, sums: [[__m256i; 2]; R]) {
    for (out, sums) in tile.iter_mut().zip(sums) {
        let out = &mut out[line * 16..line * 16 + 16];
        for (out, sum) in out.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
            // SAFETY: `out` has eight numbers of 32 bits.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), sum) };
        }
    }
}

/// Computes products of floats: up to six rows of `left` with 32 columns of `right`. See `float::products`.
#[allow(clippy::too_many_arguments, reason = "two matrices by their strides")]
pub(crate) fn grid(
    kind: Kind,
    left: &[f32],
    left_stride: usize,
    right: &[f32],
    right_stride: usize,
    depth: usize,
    count: usize,
    out: &mut Grid,
) {
    assert!(count <= out.len(), "it fits the grid");
    assert!(
        depth == 0 || left.len() >= (count - 1) * left_stride + depth,
        "every row of the left side is there"
    );
    assert!(
        depth == 0 || right.len() >= (depth - 1) * right_stride + WIDTH,
        "every row of the right side is there"
    );
    macro_rules! by_count {
        ($function:ident) => {
            // SAFETY: a kind is created only after its features were found; the sizes are as asserted.
            match count {
                1 => unsafe { $function::<1>(left, left_stride, right, right_stride, depth, out) },
                2 => unsafe { $function::<2>(left, left_stride, right, right_stride, depth, out) },
                3 => unsafe { $function::<3>(left, left_stride, right, right_stride, depth, out) },
                4 => unsafe { $function::<4>(left, left_stride, right, right_stride, depth, out) },
                5 => unsafe { $function::<5>(left, left_stride, right, right_stride, depth, out) },
                6 => unsafe { $function::<6>(left, left_stride, right, right_stride, depth, out) },
                _ => {}
            }
        };
    }
    if kind == Kind::Avx512Vnni { by_count!(grid_512) } else { by_count!(grid_256) }
}

/// # Safety
/// `left` has `R` rows of `depth` numbers, and `right` has `depth` rows of 32, each by its stride.
#[target_feature(enable = "avx512f")]
unsafe fn grid_512<const R: usize>(
    left: &[f32],
    left_stride: usize,
    right: &[f32],
    right_stride: usize,
    depth: usize,
    out: &mut Grid,
) {
    let mut sums: [[__m512; 2]; R] = [[_mm512_setzero_ps(); 2]; R];
    for step in 0..depth {
        // SAFETY: the row exists, as the caller guarantees.
        let (first, second) = unsafe {
            let start = right.as_ptr().add(step * right_stride);
            (_mm512_loadu_ps(start), _mm512_loadu_ps(start.add(16)))
        };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: as above.
            let number = _mm512_set1_ps(unsafe { *left.as_ptr().add(row * left_stride + step) });
            sums[0] = _mm512_fmadd_ps(number, first, sums[0]);
            sums[1] = _mm512_fmadd_ps(number, second, sums[1]);
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        for (out, sum) in out.as_chunks_mut::<16>().0.iter_mut().zip(sums) {
            // SAFETY: `out` has sixteen floats.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
        }
    }
}

/// # Safety
/// The conditions of `grid_512` apply.
#[target_feature(enable = "avx2,fma")]
unsafe fn grid_256<const R: usize>(
    left: &[f32],
    left_stride: usize,
    right: &[f32],
    right_stride: usize,
    depth: usize,
    out: &mut Grid,
) {
    for half in 0..2 {
        let mut sums: [[__m256; 2]; R] = [[_mm256_setzero_ps(); 2]; R];
        for step in 0..depth {
            // SAFETY: the row exists, as the caller guarantees.
            let (first, second) = unsafe {
                let start = right.as_ptr().add(step * right_stride + half * 16);
                (_mm256_loadu_ps(start), _mm256_loadu_ps(start.add(8)))
            };
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let number = _mm256_broadcast_ss(unsafe { &*left.as_ptr().add(row * left_stride + step) });
                sums[0] = _mm256_fmadd_ps(number, first, sums[0]);
                sums[1] = _mm256_fmadd_ps(number, second, sums[1]);
            }
        }
        for (out, sums) in out.iter_mut().zip(sums) {
            let out = &mut out[half * 16..half * 16 + 16];
            for (out, sum) in out.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
                // SAFETY: `out` has eight floats.
                unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sum) };
            }
        }
    }
}
