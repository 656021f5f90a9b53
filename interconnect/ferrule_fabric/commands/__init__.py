"""Subcommands of ``ferrule-fabric``, one file per noun; each exports click commands that `cli` adds."""
