// What the collectives of a warp compute, once all lanes have come.
#pragma once

namespace emu {

// compute sets what each lane takes from the collective. It adds to conflicts the turns that ldmatrix loses
// because rows of one matrix lie in the same banks.
void compute(Op op, Lane *lanes, u64 *conflicts);

} // namespace emu
