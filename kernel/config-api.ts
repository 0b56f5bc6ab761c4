import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { readConfigText, resolveConfig, saveConfigFile, setInFile } from './config/index.js'
import { kernelError } from './errors.js'
import type { ConfigOwner, ResolvedConfig } from './config/index.js'

/** A change as a client asks for it: values by dotted path, null to remove. */
export interface ConfigChange { revision: string, set: Record<string, unknown> }

export interface ConfigApi {
  /** The settings in force with their origins, and the revision of the file as it is now. */
  read (): { revision: string, file: string, entries: unknown[] }
  /**
   * Changes svc.yaml; it takes effect at the next restart. Throws `config_changed` when the file is not of
   * the given revision any more, `invalid_request` when the result would be wrong (nothing is written).
   */
  write (change: ConfigChange): { revision: string, restart_needed: boolean }
}

export interface ConfigApiOptions {
  /** svc.yaml in use, or where it would be made. */
  path: string
  config: ResolvedConfig
  owners: readonly ConfigOwner[]
  authorities: readonly string[]
  onChange: () => void
}

/** Reading and changing svc.yaml over the API. */
export function createConfigApi (options: ConfigApiOptions): ConfigApi {
  const text = (): string => existsSync(options.path) ? readFileSync(options.path, 'utf8') : ''
  return {
    read: () => ({ revision: revisionOf(text()), file: options.path, entries: options.config.entries() }),
    write ({ revision, set }) {
      const before = text()
      if (revisionOf(before) !== revision) {
        throw kernelError('config_changed', 'svc.yaml has changed since it was read; read GET /config again.',
          { revision: revisionOf(before) })
      }
      const after = Object.entries(set)
        .reduce((yaml, [path, value]) => edited(options, yaml, path, value), before)
      refuseMistakes(options, after)
      if (after !== before) {
        saveConfigFile(options.path, after)
        options.onChange()
      }
      return { revision: revisionOf(after), restart_needed: after !== before }
    }
  }
}

/** First 16 hex digits of SHA-256 over the file. */
function revisionOf (text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function edited (options: ConfigApiOptions, yaml: string, path: string, value: unknown): string {
  try {
    return setInFile(yaml, options.config.writtenAt(path), value === null ? undefined : value)
  } catch (error) {
    throw refused([{ path, message: (error as Error).message }])
  }
}

function refuseMistakes (options: ConfigApiOptions, yaml: string): void {
  const { problems } = resolveConfig(readConfigText(yaml, options.path), {
    owners: options.owners, env: {}, authorities: options.authorities
  })
  if (problems.length > 0) throw refused(problems.map(({ path, message }) => ({ path, message })))
}

function refused (issues: { path: string, message: string }[]): Error {
  return kernelError('invalid_request', issues.map((i) => `${i.path}: ${i.message}`).join('; '),
    { param: issues[0]?.path ?? 'set', issues })
}
