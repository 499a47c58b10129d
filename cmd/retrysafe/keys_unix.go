//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives f the owner and group of the file that it will replace: what root rotates must stay readable for
// the gateway's user.
func keepOwner(f *os.File, replaced fs.FileInfo) error {
	made, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := made.Sys().(*syscall.Stat_t)
	want, known := replaced.Sys().(*syscall.Stat_t)
	if !ok || !known || is.Uid == want.Uid && is.Gid == want.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

// syncFolder makes the names in a folder durable.
func syncFolder(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
