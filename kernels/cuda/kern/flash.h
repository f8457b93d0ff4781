// The two loops over the keys: by a block, for 128 queries of a head, and by a warp, for a short head.
#pragma once
#include "attn.h"

// flash has two stages of keys and values: one is loaded while the other is multiplied.
template <class L> LB_ALWAYS void flash(const lb_attn_args &p)
{
	constexpr int QUERIES = LB_ATTN_QUERIES, KEYS = L::KEYS, ROWS = L::TILES * 16;
	u32 blocks = (u32)((p.lq + QUERIES - 1) / QUERIES);
	place at(p, bx() / blocks);
	int q0 = (int)(bx() % blocks) * QUERIES, keys = at.keys(p), row0 = q0 + (int)warp_id() * ROWS;
	if (p.most && keys > p.most)
		return;
	u16 *qs = (u16 *)smem(), *mine = qs + (int)warp_id() * ROWS * L::D, *ring = qs + QUERIES * L::D;
	const u16 *k = (const u16 *)global(p.k.ptr) + at.first(p.k), *v = (const u16 *)global(p.v.ptr) + at.first(p.v);
	bool kfast = aligned(p.k), vfast = aligned(p.v);
	auto load = [&](int key0, int stage) {
		u16 *to = ring + stage * 2 * KEYS * L::D;
		int valid = min(keys - key0, KEYS);
		load_rows<L>(to, k + key0 * p.k.seq, p.k, kfast, KEYS, valid, (int)tid(), 128);
		load_rows<L>(to + KEYS * L::D, v + key0 * p.v.seq, p.v, vfast, KEYS, valid, (int)tid(), 128);
		cp_commit();
	};
	load_rows<L>(qs, (const u16 *)global(p.q.ptr) + at.first(p.q) + q0 * p.q.seq, p.q, aligned(p.q), QUERIES,
		min(p.lq - q0, QUERIES), (int)tid(), 128);
	if (keys > 0)
		load(0, 0);
	cp_wait<0>();
	BAR(1);
	state<L> st;
	st.begin(mine);
	bias_of bias(p, at.head, row0, (u8 *)(ring + 4 * KEYS * L::D));
	f32 scale = p.scale * LOG2E;
	NO_UNROLL
	for (int key0 = 0, stage = 0; key0 < keys; key0 += KEYS, stage ^= 1) {
		if (key0 > 0) {
			cp_wait<0>();
			BAR(2); // the keys are loaded, and all threads have used the keys before
		}
		if (key0 + KEYS < keys)
			load(key0 + KEYS, stage ^ 1);
		const u16 *ks = ring + stage * 2 * KEYS * L::D;
		if (row0 >= p.lq)
			continue;
		if (key0 + KEYS <= keys)
			pass<L, false>(st, ks, ks + KEYS * L::D, bias, scale, key0, keys);
		else
			pass<L, true>(st, ks, ks + KEYS * L::D, bias, scale, key0, keys);
	}
	store<L>(p, at, st, mine, row0, keys);
}

// short_one computes up to 64 queries and keys, all of which fit into the shared memory of its warp.
template <class L> LB_ALWAYS void short_one(const lb_attn_args &p)
{
	u32 one = bx() * LB_ATTN_WARPS + warp_id();
	if (one >= (u32)(p.lead[0] * p.lead[1] * p.heads))
		return;
	place at(p, one);
	int l = (int)lane(), keys = at.keys(p), krows = (p.lk + 15) / 16 * 16, qrows = (p.lq + 15) / 16 * 16;
	u16 *qs = (u16 *)smem() + (int)warp_id() * (2 * krows + qrows) * L::D, *ks = qs + qrows * L::D, *vs = ks + krows * L::D;
	int used = min((keys + 15) / 16 * 16, krows);
	load_rows<L>(qs, (const u16 *)global(p.q.ptr) + at.first(p.q), p.q, aligned(p.q), qrows, p.lq, l, 32);
	load_rows<L>(ks, (const u16 *)global(p.k.ptr) + at.first(p.k), p.k, aligned(p.k), used, keys, l, 32);
	load_rows<L>(vs, (const u16 *)global(p.v.ptr) + at.first(p.v), p.v, aligned(p.v), used, keys, l, 32);
	cp_commit();
	cp_wait<0>();
	warp_bar();
	NO_UNROLL
	for (int row0 = 0; row0 < p.lq; row0 += 16) {
		state<L> st;
		st.begin(qs + row0 * L::D);
		bias_of bias(p, at.head, row0, smem() + LB_ATTN_WARPS * (2 * krows + qrows) * L::D * 2);
		if (keys > 0)
			pass<L, true>(st, ks, vs, bias, p.scale * LOG2E, 0, keys);
		store<L>(p, at, st, qs + row0 * L::D, row0, keys);
	}
}

template <class T, int D> using long_heads = attn_of<T, D, 2>;
template <class T, int D> using short_heads = attn_of<T, D, 1>;
