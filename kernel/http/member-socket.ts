/** Which member is at the other end of a socket of the members' listener. */
const members = new WeakMap<object, string>()

/** Remembers whose socket it is, once its key was compared; undefined forgets it. */
export function setMember (socket: object, installId: string | undefined): void {
  if (installId === undefined) members.delete(socket)
  else members.set(socket, installId)
}

/**
 * The install id of the member at the other end of a socket that the members' listener accepted. Undefined
 * for strangers, for members that were dropped, and for every other socket.
 */
export function memberOf (socket: object): string | undefined { return members.get(socket) }
