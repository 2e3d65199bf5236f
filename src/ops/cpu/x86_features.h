// What an x86-64 machine offers beyond its baseline, each with the system's consent to
// use the registers.
#pragma once

namespace ingot::cpu {

bool has_avx2();    // with FMA and F16C
bool has_avx512();  // F, BW, DQ, VL and VNNI; implies has_avx2()
// AMX-TILE and AMX-INT8; implies has_avx512().  The first call asks the system for the
// tile registers, on behalf of the whole process.
bool has_amx();

}  // namespace ingot::cpu
