"""An in-memory object store that replaces `lab_env.platform.store`."""

from botocore.exceptions import ClientError

from lab_env.platform import store
from lab_env.platform.store import StoredObject


class MemoryStore(dict):
    """Objects by key; the class also serves as the client that writes them."""

    def install(self, monkeypatch) -> None:
        """Make all code use this store for the rest of a test."""
        for name in ("list_objects", "read", "client", "delete_prefix"):
            monkeypatch.setattr(store, name, getattr(self, name))

    def list_objects(self, endpoints, prefix):
        for key in sorted(self):
            if key.startswith(prefix) and not key.endswith("/"):
                yield StoredObject(key, len(self[key]), None)

    def read(self, endpoints, key):
        return self[key]

    def client(self, endpoints):
        return self

    def put_object(self, Bucket, Key, Body, IfNoneMatch=""):
        if IfNoneMatch and Key in self:
            raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "PutObject")
        self[Key] = Body

    def delete_prefix(self, endpoints, prefix, markers_only=False):
        for key in [key for key in self if key.startswith(prefix)]:
            if key.endswith("/") or not markers_only:
                del self[key]
