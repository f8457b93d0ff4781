# Reads ptxas.limits, what emu/shared.cc says and what ptxas -v says; writes the table; fails where a kernel spills more
# than it may, has more shared memory than a block can have, or is said to lose time by serialised wgmma.
FNR == 1 {
	file++
}
file == 1 {
	if ($1 !~ /^#/)
		may[$1 " " $2] = $3
	next
}
file == 2 {
	usual[$1 " " $2] = $3
	most[$1 " " $2] = $4
	room[$1 " " $2] = $5
	next
}
/\(C75[0-9][0-9]\)/ { # products of warpgroups that wait for each other, or for registers
	bad = bad $0 "\n"
}
/setmaxnreg.*ignored/ { # registers that a warpgroup believes to have
	bad = bad $0 "\n"
}
/Compiling entry function/ {
	split($0, part, "'")
	name = part[2] " " part[4]
}
/bytes stack frame/ {
	stack = $1
	stores = $5
	loads = $9
}
/Used [0-9]+ registers/ {
	match($0, /Used [0-9]+/)
	registers = substr($0, RSTART + 5, RLENGTH - 5)
	fixed = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH) + 0 : 0
	split(name, part, " ")
	row[n++] = sprintf("%-28s %-8s %9d %6d %6d %6d %7d %7d", part[1], part[2], registers, stack, stores, loads, \
		usual[name] + fixed, most[name] + fixed)
	if (stores + loads > may[name] + 0)
		bad = bad sprintf("%s spills %d bytes\n", name, stores + loads)
	if (!(name in room))
		bad = bad sprintf("%s is not in kernels.def\n", name)
	else if (most[name] + fixed > room[name])
		bad = bad sprintf("%s has %d bytes of shared memory, a block has %d\n", name, most[name] + fixed, room[name])
}
END {
	printf "%-28s %-8s %9s %6s %6s %6s %7s %7s\n", "kernel", "target", "registers", "stack", "stores", "loads", "shared", "most"
	for (i = 0; i < n; i++)
		print row[i] | "LC_ALL=C sort"
	close("LC_ALL=C sort")
	if (bad) {
		printf "%s", bad
		exit 1
	}
}
