import { relative } from 'node:path'
import { printable } from './paths.js'
import type { Problem } from './types.js'

/**
 * Writes problems for people, one line each: place, path, what is wrong, what was probably meant. A file
 * below `folder` (an absolute path) is named relative to it.
 */
export function formatProblems (problems: readonly Problem[], folder?: string): string {
  return problems.map((problem) => formatProblem(problem, folder)).join('\n')
}

function formatProblem (problem: Problem, folder: string | undefined): string {
  const { path, message, suggestion } = problem
  const place = placeOf(problem, folder)
  const text = suggestion === undefined ? message : `${message}; did you mean "${suggestion}"?`
  const line = [place, path === '' ? text : `${path}: ${text}`].filter((part) => part !== '').join('  ')
  return printable(line.replace(/\s*\n\s*/g, ' '))
}

function placeOf ({ file, line, column, source }: Problem, folder: string | undefined): string {
  if (file === null) return source ?? ''
  const near = folder === undefined ? file : relative(folder, file)
  const name = near === '' || near.startsWith('..') ? file : near
  return line === null ? name : `${name}:${line}:${column ?? 1}`
}
