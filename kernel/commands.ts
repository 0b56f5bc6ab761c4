import { kernelError } from './errors.js'
import type { Command, Commands } from './services.js'

interface OpenCommands extends Commands { abortAll (reason: 'session_changed' | 'shutting_down'): void }

/** The open commands of this node; `abortAll` ends them at shutdown or at a session change. */
export function createCommands (): OpenCommands {
  const open = new Map<string, Command>()
  return {
    track (command) {
      open.set(command.commandId, command)
      return () => { open.delete(command.commandId) }
    },
    cancel (commandId, caller) {
      const command = open.get(commandId)
      if (command === undefined) return false
      if (command.caller.id !== caller.id && !caller.authorities.has('cluster:write')) {
        throw kernelError('missing_grant', 'Cancelling another caller\'s command needs cluster:write.',
          { authority: 'cluster:write' })
      }
      command.abort('cancelled')
      return true
    },
    abortAll (reason) { for (const command of [...open.values()]) command.abort(reason) },
    get open () { return open.size }
  }
}
