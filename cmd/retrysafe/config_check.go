package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

// printChecked says that all is well, and what is in force.
func (c *gatewayCmd) printChecked(s streams) error {
	rows := c.rows()
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			OK     bool       `json:"ok"`
			Routes []routeRow `json:"routes"`
		}{true, rows})
	}
	if _, err := fmt.Fprintln(s.out, "ok"); err != nil {
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tMETHODS\tPATH\tKEY\tSCOPE\tON LEASE END\tLEASE\tRETENTION\tREMEMBER\tWAIT\tUPSTREAM TIMEOUT")
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join([]string{r.Name, strings.Join(r.Methods, ","), r.Path, r.Guard, dash(r.Scope), dash(r.OnLeaseEnd), dash(r.Lease), dash(r.Retention), dash(r.Remember), dash(r.Wait), r.UpstreamTimeout}, "\t"))
	}
	return w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
