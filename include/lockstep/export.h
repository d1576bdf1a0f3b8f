#pragma once

/// Stands at a namespace's body in the public headers: what is declared there is visible to programs that link
/// liblockstep.so, and the rest of the library is not.
#define LOCKSTEP_API [[gnu::visibility("default")]]
