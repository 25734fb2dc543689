"""A stand-in for the Hugging Face Hub: repositories of small files, branches, commits."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Files = dict[str, bytes]


@dataclass
class Repository:
    """Commits, by hash, of which each is all files; and what branches point to."""

    private: bool = False
    commits: dict[str, Files] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, branch: str, files: Files, message: str = "") -> str:
        content = repr((sorted(files.items()), message, len(self.commits))).encode()
        hash_ = hashlib.sha1(content).hexdigest()
        self.commits[hash_] = files
        self.branches[branch] = hash_
        self.messages.append(message)
        return hash_

    def at(self, revision: str) -> tuple[str, Files] | None:
        hash_ = self.branches.get(revision, revision)
        return (hash_, self.commits[hash_]) if hash_ in self.commits else None


class Hub(ThreadingHTTPServer):
    """As much of the Hub as pushing and fetching tokenizers needs.

    ``readers`` may not write: their commits are refused. ``changed`` is put in the place of what is
    fetched of a file of this name: the lie of a server.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.repositories: dict[str, Repository] = {}
        self.changed: Files = {}
        self.licence = ""
        self.authorized: set[str] = set()
        self.readers: set[str] = set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Answers(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if about := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self.tell_of(about[1], about[2] or "main")
        elif tree := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path):
            self.tell_files(tree[1], tree[2])
        elif file := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.give(*file.groups())
        else:
            self.refuse(404, "EntryNotFound")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.server.authorized.add(self.headers.get("Authorization", ""))
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path)
        if path == "/api/repos/create":
            self.create(json.loads(content))
        elif path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif branch := re.fullmatch(r"/api/models/([^/]+/[^/]+)/branch/(.+)", path):
            repository = self.server.repositories[branch[1]]
            if branch[2] in repository.branches:
                self.refuse(409, "")
            else:
                repository.branches[branch[2]] = repository.branches["main"]
                self.answer({})
        elif re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/(.+)", path):
            asked = json.loads(content)["files"]
            plain = {"uploadMode": "regular", "shouldIgnore": False}
            self.answer({"files": [{"path": one["path"], **plain} for one in asked]})
        elif commit := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/(.+)", path):
            if self.headers.get("Authorization", "") in self.server.readers:
                self.refuse(403, "")
                return
            self.commit(commit[1], commit[2], [json.loads(one) for one in content.splitlines()])
        else:
            self.refuse(404, "EntryNotFound")

    def create(self, asked: Any) -> None:
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        if name in self.server.repositories:
            self.answer({"error": "there already", "url": f"{self.server.url}/{name}"}, 409)
            return
        made = Repository(bool(asked.get("private") or asked.get("visibility") == "private"))
        made.commit("main", {".gitattributes": b""}, "initial commit")
        self.server.repositories[name] = made
        self.answer({"url": f"{self.server.url}/{name}"})

    def commit(self, name: str, branch: str, lines: list[Any]) -> None:
        repository = self.server.repositories[name]
        header, *rest = (one["value"] for one in lines)
        assert header.get("parentCommit") in (None, repository.branches[branch])
        files = dict(repository.commits[repository.branches[branch]])
        files |= {one["path"]: base64.b64decode(one["content"]) for one in rest}
        hash_ = repository.commit(branch, files, header["summary"])
        url = f"{self.server.url}/{name}/commit/{hash_}"
        self.answer({"commitOid": hash_, "commitUrl": url, "success": True})

    def found(self, name: str, revision: str) -> tuple[str, Files] | None:
        repository = self.server.repositories.get(name)
        found = None if repository is None else repository.at(revision)
        if found is None:
            self.refuse(404, "RepoNotFound" if repository is None else "RevisionNotFound")
        return found

    def tell_of(self, name: str, revision: str) -> None:
        if (found := self.found(name, revision)) is not None:
            hash_, files = found
            card = {"license": self.server.licence} if self.server.licence else None
            self.answer({
                "id": name, "_id": "1", "modelId": name, "sha": hash_, "private": False,
                "tags": [], "downloads": 0, "likes": 0, "cardData": card,
                "siblings": [{"rfilename": one} for one in sorted(files)],
            })  # fmt: skip

    def tell_files(self, name: str, revision: str) -> None:
        if (found := self.found(name, revision)) is not None:
            self.answer([
                {"type": "file", "path": one, "size": len(content),
                 "oid": hashlib.sha1(content).hexdigest()}
                for one, content in sorted(found[1].items())
            ])  # fmt: skip

    def give(self, name: str, revision: str, file: str) -> None:
        if (found := self.found(name, revision)) is None:
            return
        hash_, files = found
        if file not in files:
            self.refuse(404, "EntryNotFound")
            return
        content = self.server.changed.get(file, files[file])
        tag = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": hash_}
        self.send(200, content, {"Content-Type": "application/octet-stream", **tag})

    def refuse(self, code: int, why: str) -> None:
        self.send(code, b'{"error":"no"}', {"X-Error-Code": why, "X-Error-Message": "no"})

    def answer(self, value: Any, code: int = 200) -> None:
        self.send(code, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send(self, code: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def hub_server() -> Iterator[Hub]:
    """One that answers while the block runs."""
    with Hub() as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
