// Package cost holds what a stage tells the planner of its work, memory and weights, and what the planner tells the
// stage of how its weights lie. The planner is latentbeam's own; a stage needs these types only.
package cost
