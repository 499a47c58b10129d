//go:build mutants

package mutants

// Faults of routes and of the file that they stand in: the wrong one decides, or a file is taken that should not be.

const program = "cmd/retrysafe"

var routeMutants = []mutant{
	{
		fault: "the last route that matches decides",
		file:  "gateway/route.go",
		old:   "for i := range g.branches {",
		new:   "for i := len(g.branches) - 1; i >= 0; i-- {",
		pkg:   proxy, test: "TestRouteThatDecides/a literal that stands first",
	},
	{
		fault: "a path with dots goes round a route",
		file:  "gateway/route_path.go",
		old:   `case segment == "." || segment == "..":`,
		new:   `case false:`,
		pkg:   proxy, test: "TestSpellings/out of the unguarded prefix",
	},
	{
		fault: "a path with an encoded letter goes round a route",
		file:  "gateway/route_path.go",
		old:   `case isUnreserved(c):`,
		new:   `case false && isUnreserved(c):`,
		pkg:   proxy, test: "TestSpellings/an encoded letter",
	},
	{
		fault: "a method in small letters goes round a route",
		file:  "gateway/route.go",
		old:   `return strings.EqualFold(m, method)`,
		new:   `return m == method`,
		pkg:   proxy, test: "TestSpellingsOfOtherMethods",
	},
	{
		fault: "each route has a bound over bodies of its own",
		file:  "gateway/route.go",
		old:   `= whole.Bodies, whole.Quotas, cmp.Or`,
		new:   `= nil, whole.Quotas, cmp.Or`,
		pkg:   proxy, test: "TestRoutesShareTheBoundOverBodies",
	},
	{
		fault: "a file with a change that it cannot make is put in force but for that",
		file:  "cmd/retrysafe/reload.go",
		old:   "if err := next.fixed(s.cmd); err != nil {",
		new:   "if err := next.fixed(s.cmd); false {",
		pkg:   program, test: "TestReloadRefused",
	},
	{
		fault: "a reload leaves the policy of claims as it was",
		file:  "cmd/retrysafe/config_route.go",
		old:   "o.Guard.Policy, o.Guard.Bodies, o.Guard.Quotas = c.policy(), s.bodies, s.quotas",
		new:   "o.Guard.Bodies, o.Guard.Quotas = s.bodies, s.quotas",
		pkg:   program, test: "TestReload",
	},
	{
		fault: "the file wins over the environment",
		file:  "cmd/retrysafe/config.go",
		old:   "if !ok || slices.ContainsFunc(flag.Tag.Envs,",
		new:   "if !ok || false && slices.ContainsFunc(flag.Tag.Envs,",
		pkg:   program, test: "TestConfigPrecedence",
	},
}
