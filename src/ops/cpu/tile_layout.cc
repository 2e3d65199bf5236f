#include "ops/cpu/tile_layout.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "ops/cpu/packed.h"
#include "tensor/dequantize.h"

namespace ingot::cpu {
namespace {

constexpr size_t kR = kTileRows;

CodeRange range_of(int bits) {
  return bits <= 4 ? CodeRange::u4 : bits == 5 ? CodeRange::u5 : CodeRange::u6;
}

bool by_halves(ScaleKind kind) {
  return kind == ScaleKind::f16_times_16 || kind == ScaleKind::k_min_16 ||
         kind == ScaleKind::e4m3_halved;
}

bool has_offsets(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::f16_min:
    case ScaleKind::k_min:
    case ScaleKind::k_min_16:
    case ScaleKind::affine_f16:
    case ScaleKind::affine_bf16:
    case ScaleKind::affine_f32:
    case ScaleKind::zero_f16:
    case ScaleKind::zero_bf16:
      return true;
    default:
      return false;
  }
}

TileLayout layout(int bits, int zero, ScaleKind scales, int span_cols,
                  CodeTable table = CodeTable::none) {
  TileLayout l{.bits = bits,
               .table = table,
               .scales = scales,
               .span_cols = span_cols,
               .format = {}};
  const bool is_signed = bits == 8 || table != CodeTable::none;
  l.format = {.range = is_signed ? CodeRange::s8 : range_of(bits),
              .zero = zero,
              .halves = by_halves(scales),
              .offsets = has_offsets(scales)};
  return l;
}

uint16_t load_u16(const uint8_t* p) { return uint16_t(p[0] | (p[1] << 8)); }
float load_f16(const uint8_t* p, int row) { return f16_to_f32(load_u16(p + 2 * row)); }

float affine_value(ScaleKind kind, const uint8_t* p, int row) {
  if (kind == ScaleKind::affine_f32) {
    float value;
    std::memcpy(&value, p + 4 * row, sizeof value);
    return value;
  }
  return kind == ScaleKind::affine_f16 || kind == ScaleKind::zero_f16
             ? load_f16(p, row)
             : bf16_to_f32(load_u16(p + 2 * row));
}

// 2^(e - 128)
float halved_power(uint8_t e) {
  return std::bit_cast<float>(e >= 2 ? uint32_t(e - 1) << 23 : uint32_t(0x00200000) << e);
}

// Scales and offsets of one row of a group.
void unpack_scales(const TileLayout& l, const uint8_t* header, const uint8_t* own, int r,
                   TileGroup& out) {
  const auto row = size_t(r);
  switch (l.scales) {
    case ScaleKind::f16:
      out.scale[0][r] = load_f16(header, r);
      break;
    case ScaleKind::f16_min:
      out.scale[0][r] = load_f16(header, r);
      out.offset[0][r] = load_f16(header + 2 * kR, r);
      break;
    case ScaleKind::f16_times_32:
      out.scale[0][r] = load_f16(header, r) * float(int8_t(own[row]));
      break;
    case ScaleKind::f16_times_16:
      for (size_t h = 0; h < 2; ++h)
        out.scale[h][r] = load_f16(header, r) * float(int8_t(own[h * kR + row]));
      break;
    case ScaleKind::k_min:
      out.scale[0][r] = load_f16(header, r) * float(own[row]);
      out.offset[0][r] = -(load_f16(header + 2 * kR, r) * float(own[kR + row]));
      break;
    case ScaleKind::k_min_16:
      for (size_t h = 0; h < 2; ++h) {
        const int both = own[h * kR + row];
        out.scale[h][r] = load_f16(header, r) * float(both & 15);
        out.offset[h][r] = -(load_f16(header + 2 * kR, r) * float(both >> 4));
      }
      break;
    case ScaleKind::e8m0_halved:
      out.scale[0][r] = halved_power(header[row]);
      break;
    case ScaleKind::e4m3_halved:
      for (size_t h = 0; h < 2; ++h)
        out.scale[h][r] = 0.5f * f8_e4m3_to_f32(own[h * kR + row]);
      break;
    case ScaleKind::affine_f16:
    case ScaleKind::affine_bf16:
    case ScaleKind::affine_f32: {
      const size_t size = l.scales == ScaleKind::affine_f32 ? 4 : 2;
      out.scale[0][r] = affine_value(l.scales, header, r);
      out.offset[0][r] = affine_value(l.scales, header + size * kR, r);
      break;
    }
    case ScaleKind::zero_f16:
    case ScaleKind::zero_bf16:
      out.scale[0][r] = affine_value(l.scales, header, r);
      out.offset[0][r] = -(out.scale[0][r] * float(header[2 * kR + row]));
      break;
  }
}

// Where the planes of a code's bits lie.
struct Plane {
  int bits;   // 1, 2, 4 or 8
  int shift;  // of its bits in the code
  size_t at;  // bytes into the group's codes
};
int planes_of(int bits, Plane (&planes)[2]) {
  switch (bits) {
    case 3:
      planes[0] = {2, 0, 0};
      planes[1] = {1, 2, 64};
      return 2;
    case 5:
      planes[0] = {4, 0, 0};
      planes[1] = {1, 4, 128};
      return 2;
    case 6:
      planes[0] = {4, 0, 0};
      planes[1] = {2, 4, 128};
      return 2;
    default:
      planes[0] = {bits, 0, 0};
      return 1;
  }
}

// A chunk of 4 columns in a plane: its first byte and the shift in every byte.
struct ChunkPlace {
  size_t at;
  int shift;
};
ChunkPlace place(const Plane& plane, int chunk) {
  const int in_byte = 8 / plane.bits;  // chunks that share a byte
  const int n_vectors = 8 / in_byte;   // of 32 bytes
  const size_t vector = 32;
  if (plane.bits == 4)
    return {plane.at + vector * size_t(chunk % n_vectors), 4 * (chunk / n_vectors)};
  return {plane.at + vector * size_t(chunk / in_byte), plane.bits * (chunk % in_byte)};
}

void unpack_codes(const TileLayout& l, const uint8_t* codes, TileGroup& out) {
  constexpr size_t kBytes = 4 * kR;  // of a chunk
  Plane planes[2];
  const int n_planes = planes_of(l.bits, planes);
  for (int chunk = 0; chunk < kGroupCols / 4; ++chunk) {
    uint8_t* to = &out.code[chunk][0][0];
    std::memset(to, 0, kBytes);
    for (int p = 0; p < n_planes; ++p) {  // a loop of bytes that compilers vectorise
      const ChunkPlace at = place(planes[p], chunk);
      const auto mask = uint8_t((1 << planes[p].bits) - 1);
      const uint8_t* from = codes + at.at;
      const int up = planes[p].shift;
      for (size_t i = 0; i < kBytes; ++i)
        to[i] = uint8_t(to[i] | (((from[i] >> at.shift) & mask) << up));
    }
  }
  const int8_t* table = code_table(l.table);
  if (table == nullptr) return;
  uint8_t* all = &out.code[0][0][0];
  for (size_t i = 0; i < sizeof out.code; ++i) all[i] = uint8_t(table[all[i]]);
}

}  // namespace

const int8_t* code_table(CodeTable table) {
  static constexpr int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
  switch (table) {
    case CodeTable::none:
      return nullptr;
    case CodeTable::iq4:
      return kIq4;
    case CodeTable::e2m1:
      return kE2m1Doubled;
  }
  CHECK(false);
}

size_t TileLayout::header_bytes() const {
  switch (scales) {
    case ScaleKind::f16:
    case ScaleKind::f16_times_32:
    case ScaleKind::f16_times_16:
      return 2 * kR;
    case ScaleKind::f16_min:
    case ScaleKind::k_min:
    case ScaleKind::k_min_16:
    case ScaleKind::affine_f16:
    case ScaleKind::affine_bf16:
      return 4 * kR;
    case ScaleKind::affine_f32:
      return 8 * kR;
    case ScaleKind::zero_f16:
    case ScaleKind::zero_bf16:
      return 3 * kR;
    case ScaleKind::e8m0_halved:
      return kR;
    case ScaleKind::e4m3_halved:
      return 0;
  }
  CHECK(false);
}

size_t TileLayout::scale_bytes() const {
  switch (scales) {
    case ScaleKind::f16_times_32:
      return kR;
    case ScaleKind::f16_times_16:
    case ScaleKind::k_min:
    case ScaleKind::k_min_16:
    case ScaleKind::e4m3_halved:
      return 2 * kR;
    default:
      return 0;
  }
}

TileLayout tile_layout(DType type) {
  switch (type) {
    case DType::q4_0:
      return layout(4, -8, ScaleKind::f16, 32);
    case DType::q4_1:
      return layout(4, 0, ScaleKind::f16_min, 32);
    case DType::q5_0:
      return layout(5, -16, ScaleKind::f16, 32);
    case DType::q5_1:
      return layout(5, 0, ScaleKind::f16_min, 32);
    case DType::q8_0:
      return layout(8, 0, ScaleKind::f16, 32);
    case DType::q2_k:
      return layout(2, 0, ScaleKind::k_min_16, 256);
    case DType::q3_k:
      return layout(3, -4, ScaleKind::f16_times_16, 256);
    case DType::q4_k:
      return layout(4, 0, ScaleKind::k_min, 256);
    case DType::q5_k:
      return layout(5, 0, ScaleKind::k_min, 256);
    case DType::q6_k:
      return layout(6, -32, ScaleKind::f16_times_16, 256);
    case DType::iq4_nl:
      return layout(4, 0, ScaleKind::f16, 32, CodeTable::iq4);
    case DType::iq4_xs:
      return layout(4, 0, ScaleKind::f16_times_32, 256, CodeTable::iq4);
    case DType::mxfp4:
      return layout(4, 0, ScaleKind::e8m0_halved, 32, CodeTable::e2m1);
    case DType::nvfp4:
      return layout(4, 0, ScaleKind::e4m3_halved, 64, CodeTable::e2m1);
    default:
      return {};
  }
}

TileLayout affine_layout(int bits, int group_size, DType scale_dtype) {
  const ScaleKind scales = scale_dtype == DType::f16    ? ScaleKind::affine_f16
                           : scale_dtype == DType::bf16 ? ScaleKind::affine_bf16
                                                        : ScaleKind::affine_f32;
  // 8-bit codes are stored less 128, as signed bytes.
  return layout(bits, bits == 8 ? 128 : 0, scales, group_size);
}

TileLayout zero_point_layout(const AffineMatrix& m) {
  const bool narrow = m.scale_dtype == DType::f16 || m.scale_dtype == DType::bf16;
  if (!narrow || m.bits == 7 || !m.group_of_column.empty() ||
      m.group_size % kGroupCols != 0 || m.n_cols % m.group_size != 0)
    return {};
  return layout(m.bits, m.bits == 8 ? 128 : 0,
                m.scale_dtype == DType::f16 ? ScaleKind::zero_f16 : ScaleKind::zero_bf16,
                m.group_size);
}

// A row owns 4 bytes of every 32-byte vector: they are put together as one word, 4 codes
// at a time.
void put_codes(const TileLayout& l, const uint8_t (&codes)[kGroupCols], int row,
               uint8_t* out) {
  Plane planes[2];
  const int n_planes = planes_of(l.bits, planes);
  uint32_t words[8] = {};  // one a vector
  for (int p = 0; p < n_planes; ++p) {
    const uint32_t mask = ((1u << planes[p].bits) - 1) * 0x01010101u;
    for (int chunk = 0; chunk < kGroupCols / 4; ++chunk) {
      uint32_t four;
      std::memcpy(&four, codes + 4 * chunk, sizeof four);
      const ChunkPlace at = place(planes[p], chunk);
      words[at.at / 32] |= ((four >> planes[p].shift) & mask) << at.shift;
    }
  }
  for (size_t v = 0; v < size_t(l.bits); ++v)
    std::memcpy(out + 32 * v + 4 * size_t(row), &words[v], sizeof words[v]);
}

void unpack_layout(const WeightSegment& s, int tile, int first_group, int n_groups,
                   TileGroup* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(s.tile(tile));
  for (int i = 0; i < n_groups; ++i) {
    const uint8_t* header = bytes + s.layout.header_at(first_group + i);
    const uint8_t* own = bytes + s.layout.group_at(first_group + i);
    for (int r = 0; r < kTileRows; ++r) unpack_scales(s.layout, header, own, r, out[i]);
    unpack_codes(s.layout, own + s.layout.scale_bytes(), out[i]);
  }
}

}  // namespace ingot::cpu
