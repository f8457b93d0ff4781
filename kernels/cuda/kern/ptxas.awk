# Reads ptxas.limits and what ptxas -v says; writes the table; fails where a kernel spills more than it may.
FNR == NR {
	if ($1 !~ /^#/)
		may[$1 " " $2] = $3
	next
}
/Compiling entry function/ {
	split($0, part, "'")
	name = part[2]
	target = part[4]
}
/bytes stack frame/ {
	stack = $1
	stores = $5
	loads = $9
}
/Used [0-9]+ registers/ {
	match($0, /Used [0-9]+/)
	registers = substr($0, RSTART + 5, RLENGTH - 5)
	row[n++] = sprintf("%-28s %-8s %9d %6d %6d %6d", name, target, registers, stack, stores, loads)
	if (stores + loads > may[name " " target] + 0) {
		bad = bad sprintf("%s %s spills %d bytes\n", name, target, stores + loads)
	}
}
END {
	printf "%-28s %-8s %9s %6s %6s %6s\n", "kernel", "target", "registers", "stack", "stores", "loads"
	for (i = 0; i < n; i++)
		print row[i] | "LC_ALL=C sort"
	close("LC_ALL=C sort")
	if (bad) {
		printf "%s", bad
		exit 1
	}
}
