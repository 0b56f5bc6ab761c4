import { relative } from 'node:path'
import { printable } from './paths.js'

export interface Problem {
  readonly file: string | null
  readonly line: number | null
  readonly column: number | null
  readonly path: string
  readonly message: string
  readonly source?: string
  readonly expected?: string
  readonly suggestion?: string
}

/** Thrown by functions that cannot return problems along with a result. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[]
  constructor (message: string, problems: readonly Problem[] = []) {
    super(message)
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** Formats problems for people, one per line. Paths of files below `folder` (absolute) become relative. */
export function formatProblems (problems: readonly Problem[], folder?: string): string {
  return problems.map((problem) => formatProblem(problem, folder)).join('\n')
}

function formatProblem (problem: Problem, folder: string | undefined): string {
  const { path, message, suggestion } = problem
  const place = placeOf(problem, folder)
  const text = suggestion === undefined ? message : `${message}; did you mean "${suggestion}"?`
  const line = [place, path === '' ? text : `${path}: ${text}`].filter((part) => part !== '').join('  ')
  return printable(line.split('\n').map((part) => part.trim()).filter((part) => part !== '').join(' '))
}

function placeOf ({ file, line, column, source }: Problem, folder: string | undefined): string {
  if (file === null) return source ?? ''
  const near = folder === undefined ? file : relative(folder, file)
  const name = near === '' || near.startsWith('..') ? file : near
  return line === null ? name : `${name}:${line}:${column ?? 1}`
}
