/** Programs of test/real/suites/package.json. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../node/kit.js'

export const suites = join(root, 'test/real/suites')
const modules = join(suites, 'node_modules')
const old = Number(process.versions.node.split('.')[0]) < 22
/** Node 22 or later, which the programs need. */
export const node22 = old ? join(modules, 'node22/bin/node') : process.execPath
export const withoutPrograms = !existsSync(join(modules, '@hyperjump'))
  ? 'needs the npm packages of the folder'
  : existsSync(node22) ? false : 'needs Node 22, which a package has for Linux on x64'
export const conformance = join(modules, '@modelcontextprotocol/conformance/dist/index.js')
export const inspector = join(modules, '.bin/mcp-inspector')

/** A schema of a draft of JSON Schema, and values to judge. */
export interface Judged { draft: string, schema: unknown, values: unknown[] }

/** Whether each value is valid, by @hyperjump/json-schema; or the error of its schema. */
export function judge (jobs: readonly Judged[]): (boolean[] | { error: string })[] {
  const { status, stdout, stderr } = spawnSync(node22, [join(suites, 'validate.mjs')],
    { input: JSON.stringify(jobs), encoding: 'utf8', maxBuffer: 2 ** 26 })
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as ReturnType<typeof judge>
}
