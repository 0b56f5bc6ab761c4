import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { authorizeChange } from './authorize.js'
import { changeFile, readConfigText, saveConfigFile } from './index.js'
import { kernelError } from '../api/errors.js'
import type { Caller } from '../api/plugin.js'
import type { ConfigOwner, Env, ResolvedConfig } from './index.js'

/** A change as a client asks for it: values by dotted path, null to remove. */
export interface ConfigChange { revision: string, set: Record<string, unknown> }

export interface ConfigApi {
  /** The settings in force with their origins, and the revision of the file as it is now. */
  read (): { revision: string, file: string, entries: unknown[] }
  /**
   * Changes svc.yaml; it takes effect at the next restart. Throws `config_changed` when the file is not of
   * the given revision any more, `invalid_request` when the result would be wrong, `missing_grant` when the
   * caller may not change that or would grant more than it has itself (nothing is written).
   */
  write (change: ConfigChange, caller: Caller): { revision: string, restart_needed: boolean }
}

export interface ConfigApiOptions {
  /** svc.yaml in use, or where it would be made. */
  path: string
  config: ResolvedConfig
  owners: readonly ConfigOwner[]
  authorities: readonly string[]
  /** The node's environment, for `${env.NAME}`. */
  env: Env
  onChange: () => void
}

/** Reading and changing svc.yaml over the API. */
export function createConfigApi (options: ConfigApiOptions): ConfigApi {
  const text = (): string => existsSync(options.path) ? readFileSync(options.path, 'utf8') : ''
  return {
    read: () => ({ revision: revisionOf(text()), file: options.path, entries: options.config.entries() }),
    write ({ revision, set }, caller) {
      const before = text()
      if (revisionOf(before) !== revision) {
        throw kernelError('config_changed', 'svc.yaml has changed since it was read; read GET /config again.',
          { revision: revisionOf(before) })
      }
      const { owners, authorities, env } = options
      const after = changeFile(options.path, before, Object.entries(set).map(([path, value]) =>
        [options.config.writtenAt(path), value === null ? undefined : value]), { owners, authorities, env })
      if ('issues' in after) throw refused(after.issues)
      authorizeChange(readConfigText(before, null).value, readConfigText(after.text, null).value, caller)
      if (after.text !== before) {
        saveConfigFile(options.path, after.text)
        options.onChange()
      }
      return { revision: revisionOf(after.text), restart_needed: after.text !== before }
    }
  }
}

/** First 16 hex digits of SHA-256 over the file. */
function revisionOf (text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function refused (issues: { path: string, message: string }[]): Error {
  return kernelError('invalid_request', issues.map((i) => `${i.path}: ${i.message}`).join('; '),
    { param: issues[0]?.path ?? 'set', issues })
}
