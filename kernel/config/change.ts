import { setInFile } from './edit.js'
import { formatProblems } from './report.js'
import { resolveConfig } from './resolve.js'
import { readConfigText } from './text.js'
import type { Env, Problem } from './types.js'
import type { ResolveInput } from './resolve.js'

/** What is wrong with a change, by dotted path; `report` says it with what was expected. */
export interface ChangeIssue { path: string, message: string, report: string }

/**
 * svc.yaml's text after changes (undefined removes a setting), or why they cannot be made: a path without a
 * place in it, or a wrong value. The rest of the text stays, `${env.NAME}` and comments too. Only what the
 * changes bring counts: a file may have problems already, such as a variable that only the node has.
 */
export function changeFile (
  path: string, before: string, changes: readonly (readonly [path: string, value: unknown])[],
  input: ResolveInput
): { text: string } | { wrong: 'path' | 'value', issues: ChangeIssue[] } {
  let text = before
  for (const [key, value] of changes) {
    try {
      text = setInFile(text, key, value)
    } catch (error) {
      const { message } = error as Error
      return { wrong: 'path', issues: [{ path: key, message, report: `${path}: ${message}` }] }
    }
  }
  const check = (yaml: string): ChangeIssue[] =>
    resolveConfig(readConfigText(yaml, path), { ...input, env: withoutSettings(input.env) }).problems
      .map((problem) => ({ path: problem.path, message: problem.message, report: reportOf(problem) }))
  const old = new Set(check(before).map(({ report }) => report))
  const issues = check(text).filter(({ report }) => !old.has(report))
  return issues.length > 0 ? { wrong: 'value', issues } : { text }
}

/** Without the variables that override settings: they would hide what the file says. */
const withoutSettings = (env: Env): Env =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('SVC_')))

const reportOf = (problem: Problem): string => formatProblems([{ ...problem, line: null, column: null }])
