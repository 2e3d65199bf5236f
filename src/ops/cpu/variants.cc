#include "ops/cpu/variants.h"

namespace ingot::cpu {
namespace {

struct Boundary {
  SegmentKind kind;
  CodeRange range;  // kind tiles
  int most_rows;
};
// Measured on AVX2, 2 threads, by `ingot bench --kernels` (docs/cpu-kernels.md).
constexpr Boundary kBoundaries[] = {
    {SegmentKind::tiles, CodeRange::u4, 8}, {SegmentKind::tiles, CodeRange::u5, 8},
    {SegmentKind::tiles, CodeRange::u6, 8}, {SegmentKind::tiles, CodeRange::s8, 8},
    {SegmentKind::f32, CodeRange::s8, 4},   {SegmentKind::f16, CodeRange::s8, 4},
    {SegmentKind::bf16, CodeRange::s8, 4},
};

}  // namespace

int most_few_rows(const WeightSegment& s, ActMode act) {
  if (s.few_rows == nullptr) return 0;
  if (s.kind == SegmentKind::tiles && act != ActMode::automatic) return 0;
  for (const Boundary& b : kBoundaries)
    if (b.kind == s.kind && (s.kind != SegmentKind::tiles || b.range == s.format.range))
      return b.most_rows;
  return 0;
}

MatmulVariant variant_of(const WeightSegment& s, int n_rows, ActMode act) {
  return n_rows <= most_few_rows(s, act) ? MatmulVariant::few_rows
                                         : MatmulVariant::many_rows;
}

}  // namespace ingot::cpu
