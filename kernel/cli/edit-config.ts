import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { changeFile } from '../config/edit.js'
import { saveConfigFile } from '../config/file.js'
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
  const after = changeFile(path, before, [[key, value]], {
    owners: ownersOf(installation.plugins),
    env: ctx.io.env,
    authorities: authoritiesOf(installation.plugins)
  })
  if ('issues' in after) {
    const reports = after.issues.map(({ report }) => report)
    if (after.wrong === 'path') throw new CliError(exitCodes.failed, reports.join('\n'))
    throw new CliError(exitCodes.usage, `not changed:\n${reports.map((line) => `  ${line}`).join('\n')}`)
  }
  const { text } = after
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
