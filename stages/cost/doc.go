// Package cost defines what a stage tells the planner about its work, memory and weights, and what the planner decides about
// the placement of the weights. The planner is private to latentbeam; a stage needs only these types.
package cost
