// NEON: tiles of quantised weights into TileGroups (tile_layout.h says how they lie).
#include "ops/cpu/neon_codes.h"
#include "ops/cpu/packed.h"

namespace ingot::cpu {
namespace {

template <typename Codes, int v>
void unpack_pair(const uint8_t* p, TileGroup& out) {
  for (int r = 0; r < 2; ++r) {
    uint8x16_t low, high;
    Codes::template pair<v>(p + r * kHalfTile, low, high);
    vst1q_u8(out.code[v][4 * r], low);
    vst1q_u8(out.code[v + 4][4 * r], high);
  }
}

template <typename Codes>
void unpack_codes(const uint8_t* p, TileGroup& out) {
  unpack_pair<Codes, 0>(p, out);
  unpack_pair<Codes, 1>(p, out);
  unpack_pair<Codes, 2>(p, out);
  unpack_pair<Codes, 3>(p, out);
}

void unpack_codes(const TileLayout& l, const uint8_t* p, TileGroup& out) {
  if (l.table == CodeTable::iq4) return unpack_codes<TableBits<CodeTable::iq4>>(p, out);
  if (l.table == CodeTable::e2m1) return unpack_codes<TableBits<CodeTable::e2m1>>(p, out);
  switch (l.bits) {
    case 2:
      return unpack_codes<TwoBits>(p, out);
    case 3:
      return unpack_codes<ThreeBits>(p, out);
    case 4:
      return unpack_codes<FourBits>(p, out);
    case 5:
      return unpack_codes<FiveBits>(p, out);
    case 6:
      return unpack_codes<SixBits>(p, out);
    default:
      return unpack_codes<EightBits>(p, out);
  }
}

template <ScaleKind kind>
void unpack_scales(const uint8_t* header, const uint8_t* own, TileGroup& out) {
  using S = Scales<kind>;
  for (int r = 0; r < 2; ++r) {
    const GroupScales scales = S::group(S::header(header, r), own, r);
    for (int h = 0; h < (S::kHalves ? 2 : 1); ++h) {
      vst1q_f32(out.scale[h] + 4 * r, scales.scale[h]);
      if constexpr (S::kOffsets) vst1q_f32(out.offset[h] + 4 * r, scales.offset[h]);
    }
  }
}

void unpack_scales(ScaleKind kind, const uint8_t* header, const uint8_t* own,
                   TileGroup& out) {
  switch (kind) {
    case ScaleKind::f16:
      return unpack_scales<ScaleKind::f16>(header, own, out);
    case ScaleKind::f16_min:
      return unpack_scales<ScaleKind::f16_min>(header, own, out);
    case ScaleKind::f16_times_32:
      return unpack_scales<ScaleKind::f16_times_32>(header, own, out);
    case ScaleKind::f16_times_16:
      return unpack_scales<ScaleKind::f16_times_16>(header, own, out);
    case ScaleKind::k_min:
      return unpack_scales<ScaleKind::k_min>(header, own, out);
    case ScaleKind::k_min_16:
      return unpack_scales<ScaleKind::k_min_16>(header, own, out);
    case ScaleKind::e8m0_halved:
      return unpack_scales<ScaleKind::e8m0_halved>(header, own, out);
    case ScaleKind::e4m3_halved:
      return unpack_scales<ScaleKind::e4m3_halved>(header, own, out);
    case ScaleKind::affine_f16:
      return unpack_scales<ScaleKind::affine_f16>(header, own, out);
    case ScaleKind::affine_bf16:
      return unpack_scales<ScaleKind::affine_bf16>(header, own, out);
    case ScaleKind::affine_f32:
      return unpack_scales<ScaleKind::affine_f32>(header, own, out);
    case ScaleKind::zero_f16:
      return unpack_scales<ScaleKind::zero_f16>(header, own, out);
    case ScaleKind::zero_bf16:
      return unpack_scales<ScaleKind::zero_bf16>(header, own, out);
  }
}

void unpack(const WeightSegment& s, int tile, int first_group, int n_groups,
            TileGroup* out) {
  const TileLayout& l = s.layout;
  const auto* bytes =
      reinterpret_cast<const uint8_t*>(s.data) + size_t(tile) * s.tile_bytes;
  const int in_span = l.span_cols / kGroupCols;
  const size_t group_bytes = l.group_bytes(), scale_bytes = l.scale_bytes();
  const uint8_t* header = bytes + l.header_at(first_group);
  const uint8_t* own = bytes + l.group_at(first_group);
  int left = in_span - first_group % in_span;  // groups of this span
  for (int i = 0; i < n_groups; ++i, own += group_bytes) {
    if (left-- == 0) {
      header = own;
      own += l.header_bytes();
      left = in_span - 1;
    }
    unpack_scales(l.scales, header, own, out[i]);
    unpack_codes(l, own + scale_bytes, out[i]);
  }
}

}  // namespace

void add_neon_unpack(Kernels& table) { table.unpack = unpack; }

}  // namespace ingot::cpu
