"""What a workspace remembers in tables: files, runs, versions, aliases."""
