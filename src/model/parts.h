// The parts of a layer, as the forward pass calls them: h in, h out.
#pragma once

#include "model/forward.h"

namespace ingot {

// out = norm(x).  Without a norm: nothing when out is x, else not allowed.
void normalise(Ops& ops, Rows out, Rows x, const Norm& norm);
void normalise(Ops& ops, Rows out, Rows x, const std::optional<Norm>& norm);

// h = attention(h): projections, head norms, rotation, append, softmax, output.
void attend(Ops& ops, const Model& model, const Attention& attention, const KvPages& kv,
            const Batch& batch, Rows h, Workspace& work);

// h = mlp(h)
void feed_forward(Ops& ops, const Mlp& mlp, Rows h, Workspace& work);

}  // namespace ingot
