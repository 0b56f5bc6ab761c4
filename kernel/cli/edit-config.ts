import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { formatProblems, resolveConfig, readConfigText, saveConfigFile, setInFile } from '../config/index.js'
import { settingsEnv } from './env.js'
import { authoritiesOf, ownersOf } from './installed.js'
import { CliError, exitCodes } from './errors.js'
import type { Installation } from './installed.js'
import type { VerbContext } from './verb.js'

/** What the file would say after a change, checked; nothing is written yet. */
export interface Edit { path: string, text: string, changed: boolean }

/**
 * Changes one setting in the text of svc.yaml and checks the result. Throws CliError: 1 when the text cannot
 * be changed, 2 when the changed setting would be wrong (problems elsewhere in the file do not matter).
 */
export function editConfig (ctx: VerbContext, installation: Installation, key: string, value: unknown): Edit {
  const path = installation.file ?? join(ctx.home, 'svc.yaml')
  const before = existsSync(path) ? readFileSync(path, 'utf8') : ''
  let text: string
  try {
    text = setInFile(before, key, value)
  } catch (error) {
    throw new CliError(exitCodes.failed, `${path}: ${(error as Error).message}`)
  }
  const check = (yaml: string): string[] => resolveConfig(readConfigText(yaml, path), {
    owners: ownersOf(installation.plugins),
    env: settingsEnv({}),
    authorities: authoritiesOf(installation.plugins)
  }).problems.map((problem) => formatProblems([{ ...problem, line: null, column: null }]))
  const old = new Set(check(before))
  const fresh = check(text).filter((problem) => !old.has(problem))
  if (fresh.length > 0) {
    throw new CliError(exitCodes.usage, `not changed:\n${fresh.map((p) => `  ${p}`).join('\n')}`)
  }
  return { path, text, changed: text !== before }
}

/** Writes an edit; the file appears whole or not at all. */
export function saveEdit ({ path, text }: Edit): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  try {
    saveConfigFile(path, text)
  } catch (error) {
    throw new CliError(exitCodes.failed, `cannot write ${path}: ${(error as Error).message}`)
  }
}

/** How a change to svc.yaml takes effect. */
export function restartHint (ctx: VerbContext): string[] {
  return [
    'It takes effect at the next restart of the node (POST /admin/restart):',
    `  curl -X POST -H "authorization: Bearer $(cat ${join(ctx.home, 'operator.token')})" ` +
      `${ctx.client.url}/admin/restart`
  ]
}
