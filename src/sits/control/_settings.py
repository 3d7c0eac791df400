"""What control is started with. Built once, at the edge; a bad value stops the start."""

from dataclasses import dataclass, field
from pathlib import Path

from sits._settings import SettingsError


@dataclass(frozen=True)
class Settings:
    """Control's settings.

    Attributes:
        home: the platform's directory: the store and the local key lie in it.
        node_socket: path of the unix socket on which the node takes `ToNode`.
        control_socket: path of the unix socket to listen on for gateways.
        api_socket: path of the unix socket to serve the API on; its directory is made
            accessible to its owner alone.
        parent_pid: the process that started this one; control dies with it.
        public_url: what endpoints begin with, such as http://127.0.0.1:7480.
        idle_s: seconds without a request after which a unit scales down.
        cool_s: seconds without a request after which its template goes too, where the unit does
            not say.
        memory_reserve: the share of the machine's memory that is to be left free: templates that
            nothing needs go before their time for it.
        hold_s: seconds that a request may wait for an instance.
        queue_limit: how many requests of a unit may wait at one gateway.
        instance_drain_s: seconds that a stopping instance's requests get to finish.
        start_s: seconds that an instance may take to come up.
        load_s: seconds that a host may take to come up and to load its model.
        models_dir: the directory of models; empty: `models` in `home`.
        prepare: the command that prepares a model's file for the engine; empty: files are
            taken as they are shipped.
        log_dir: where the platform's processes log; empty: `logs` in `home`.
        store_url: of a PostgreSQL database for the store; empty: a file in `home`.
    """

    home: str
    node_socket: str
    control_socket: str
    api_socket: str
    parent_pid: int
    public_url: str
    idle_s: float = 60.0
    hold_s: float = 30.0
    queue_limit: int = 64
    instance_drain_s: float = 10.0
    start_s: float = 60.0
    load_s: float = 600.0
    models_dir: str = ""
    prepare: tuple[str, ...] = ()
    log_dir: str = ""
    store_url: str = field(default="", repr=False)
    cool_s: float = 3600.0
    memory_reserve: float = 0.1

    def __post_init__(self) -> None:
        """Check what a type cannot say."""
        for name in ("idle_s", "cool_s", "hold_s", "queue_limit", "start_s", "load_s"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; expected more than 0")
        if not 0 <= self.memory_reserve < 1:
            raise SettingsError(
                f"memory_reserve is {self.memory_reserve}; expected a share from 0 to less than 1"
            )
        if not self.instance_drain_s >= 0:
            raise SettingsError(f"instance_drain_s is {self.instance_drain_s}; expected 0 or more")
        if not self.public_url.startswith(("http://", "https://")):
            raise SettingsError(
                f"public_url is '{self.public_url}'; expected it to begin with http:// or https://"
            )

    @property
    def models_path(self) -> Path:
        """The directory of models."""
        return Path(self.models_dir or Path(self.home) / "models")

    @property
    def prompts_dir(self) -> str:
        """Where constant prompts wait for their templates: beside the sockets."""
        return str(Path(self.control_socket).with_name("p"))

    @property
    def log_path(self) -> Path:
        """The directory of logs."""
        return Path(self.log_dir or Path(self.home) / "logs")
