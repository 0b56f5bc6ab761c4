import { kernelError } from '../api/errors.js'
import type { Command, Commands } from '../api/services.js'

/** Calls `end` once if the session ends before the command; returns a function that unregisters it. */
export type BindToSession = (commandId: string, end: () => void) => () => void

export interface OpenCommands extends Commands {
  /** Ends every open command; after `shutting_down`, `track` refuses new commands with that reason. */
  abortAll (reason: 'session_changed' | 'shutting_down'): void
}

export function createCommands (bind: BindToSession): OpenCommands {
  const open = new Map<string, Command>()
  let stopping = false
  return {
    track (command) {
      if (stopping) throw kernelError('shutting_down')
      open.set(command.commandId, command)
      const free = bind(command.commandId, () => { command.abort('session_changed') })
      return () => {
        open.delete(command.commandId)
        free()
      }
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
    abortAll (reason) {
      stopping ||= reason === 'shutting_down'
      for (const command of [...open.values()]) command.abort(reason)
    },
    get open () { return open.size }
  }
}
