//go:build mutants

package mutants

// Faults of what the gateway asks the upstream, marks before it sends, and lets through.

var forwardMutants = []mutant{
	{
		fault: "a request that may be on its way is taken for one that never comes",
		file:  "gateway/probe.go",
		old:   "case quiet-onItsWay-g.lease < g.o.UpstreamTimeout:",
		new:   "case quiet < 0:",
		pkg:   proxy, test: "TestProbe/absent, and may just be on its way",
	},
	{
		fault: "the upstream is believed at its first word that nothing happened",
		file:  "gateway/probe.go",
		old:   `if why == "" && again.Status != a.Status {`,
		new:   `if why = ""; false {`,
		pkg:   proxy, test: "TestProbe/absent, and then it is there",
	},
	{
		fault: "a key with dots has another resource asked about",
		file:  "gateway/probe.go",
		old:   `err != nil || dotted(decoded) || `,
		new:   `err != nil || `,
		pkg:   proxy, test: "TestProbeTarget",
	},
	{
		fault: "the request leaves though its claim could not be marked",
		file:  "gateway/conn.go",
		old:   "if err := act(); err != nil {",
		new:   "if err := act(); false {",
		pkg:   proxy, test: "TestTwoStepsUnmarked",
	},
	{
		fault: "a claim is not marked before its request leaves",
		file:  "gateway/forward.go",
		old:   "sent := attempt{act: func() error { return retrysafe.Act(ctx) }}",
		new:   "sent := attempt{}",
		pkg:   proxy, test: "TestTwoSteps/it died when the upstream had the request",
	},
	{
		fault: "a derived key does not hang on the scope",
		seen:  "adcp rule 10",
		file:  "gateway/forwardkey.go",
		old:   `{key.Scope, key.Name}`,
		new:   `{"", key.Name}`,
		pkg:   proxy, test: "TestDerivedKeys",
	},
	{
		fault: "a method that nothing guards takes the caller's key to another domain of trust",
		file:  "gateway/forwardkey.go",
		old:   "\t\tdelete(h, name)\n",
		new:   "\t\tif guarded {\n\t\t\tdelete(h, name)\n\t\t}\n",
		pkg:   proxy, test: "TestForwardKeyOfUnguardedMethod",
	},
	{
		fault: "the upstream's name may lead to where a cloud tells credentials",
		file:  "gateway/dial.go",
		old:   "\t\td.Control = refuseMetadata\n",
		new:   "",
		pkg:   proxy, test: "TestNamesLeadToNoMetadata/169.254.169.254",
	},
	{
		fault: "a header that imitates the tenant's reaches the upstream",
		seen:  "oauth2-proxy CVE-2025-64484",
		file:  "gateway/forward.go",
		old:   "\tg.dropLookAlikes(h, r.Header)\n",
		new:   "",
		pkg:   proxy, test: "TestLookAlikes/guarded",
	},
	{
		fault: "a route's word on its answers is not heard",
		file:  "cmd/retrysafe/config_route.go",
		old:   "to.Guard.DropAnswers, to.Guard.Resend = from.dropAnswers.value, from.honoursKeys.value",
		new:   "to.Guard.Resend = from.honoursKeys.value",
		pkg:   "cmd/retrysafe", test: "TestRoutesTakeEffect/drop-answers",
	},
	{
		fault: "quotas of the command line are not heard",
		file:  "cmd/retrysafe/config_route.go",
		old:   "idemhttp.Quota{Rate: c.QuotaRate,",
		new:   "idemhttp.Quota{",
		pkg:   "cmd/retrysafe", test: "TestFlagsTakeEffect/quota-rate",
	},
}
