"""Who runs the platform, as the platform knows them: what is theirs is in one place."""

# The tenant of this machine's own key. The platform's environment is theirs, and nobody else's.
LOCAL_TENANT = "default"
# What their secrets for endpoints elsewhere are called in the environment begins so.
ENVIRONMENT_PREFIX = "SITS_SECRET_"
