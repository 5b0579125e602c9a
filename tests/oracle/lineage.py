"""Where the rows of files come from: seen at each commit, by the files that are live before and after it."""

from collections.abc import Iterable, Mapping

# The names of the live files, by partition and bucket.
Live = Mapping[tuple[bytes, int], frozenset[str]]


class WatchedFiles:
    """The snapshots that may have brought the rows of each file there ever was, and the snapshot that made it."""

    def __init__(self) -> None:
        self.sources: dict[str, set[int]] = {}
        self.maker: dict[str, int] = {}

    def saw(self, snapshot_id: int, kind: str, before: Live, after: Live) -> None:
        for place, names in after.items():
            for name in names:
                if name in self.maker:
                    continue  # It was there before, maybe at another level.
                if kind == "FORWARD":
                    # A snapshot of a branch made it, and main does not know which.
                    self.maker[name], self.sources[name] = -1, {-1}
                    continue
                self.maker[name] = snapshot_id
                merged = before.get(place, frozenset()) - names
                if kind == "COMPACT":
                    self.sources[name] = {source for each in merged for source in self.sources[each]}
                else:
                    self.sources[name] = {snapshot_id}

    def differences(self, origins: Iterable[object], known: set[int]) -> list[str]:
        """Return what is wrong with the origins of files, of which only the snapshots `known` are left to tell."""
        found = []
        for origin in origins:
            name, told, true = origin.file_name, set(origin.source_ids), self.sources[origin.file_name]
            maker = self.maker[name]
            if origin.snapshot_id != (maker if maker in known else None):
                found.append(f"{name}: made by {origin.snapshot_id}, not {maker}; known are {known}")
            for each in origin.lost:
                if self.maker[each] in known:
                    found.append(f"{name}: the trail ends at {each}, although {self.maker[each]} is known")
            if told | {source for each in origin.lost for source in self.sources[each]} != true:
                found.append(f"{name}: from {told} and before {origin.lost}, not {true}")
        return found
