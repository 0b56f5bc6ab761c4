/** Prints one Markdown table and one JSON line per benchmark. */
import { execFileSync } from 'node:child_process'
import os from 'node:os'
import { root } from './paths.mjs'

function git (...args) {
  try {
    return execFileSync('git', ['-C', root, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore']
    }).trim()
  } catch {
    return ''
  }
}

/** The current commit, with the suffix `+changes` if product files differ from it. */
function commit () {
  const short = git('rev-parse', '--short', 'HEAD')
  if (short === '') return 'unknown'
  return git('status', '--porcelain', '--', 'kernel', 'plugins', 'package.json') === ''
    ? short
    : `${short}+changes`
}

/** Describes the machine on which the benchmark runs. */
export function machine () {
  const cpus = os.cpus()
  return {
    cpu: cpus[0]?.model.trim() ?? 'unknown',
    cores: cpus.length,
    memoryGb: Math.round(os.totalmem() / 2 ** 30),
    node: process.version,
    load: os.loadavg().map((n) => Number(n.toFixed(1))),
    date: new Date().toISOString(),
    commit: commit()
  }
}

/** Formats a number with sensible precision and its unit. */
export function figure (value, unit = '') {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  if (typeof value === 'string') return value
  const text =
    Math.abs(value) >= 100
      ? value.toFixed(0)
      : Math.abs(value) >= 10
        ? value.toFixed(1)
        : value.toFixed(2)
  return unit === '' ? text : `${text} ${unit}`
}

/** Whether a figure meets its target: `{ name, value, limit, atLeast?, unit? }`. */
function verdict ({ value, limit, atLeast = false }) {
  if (value === null || Number.isNaN(value)) return 'not measured'
  return (atLeast ? value >= limit : value <= limit) ? 'met' : '**missed**'
}

const line = (cells) => `| ${cells.join(' | ')} |`

function table (head, rows) {
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

function targetTable (targets) {
  return table(
    ['target', 'figure', 'limit', ''],
    targets.map((t) => [
      t.name,
      figure(t.value, t.unit),
      `${t.atLeast ? 'at least' : 'at most'} ${t.limit}${t.unit ? ` ${t.unit}` : ''}`,
      verdict(t)
    ])
  )
}

/**
 * Prints one benchmark as Markdown and as a JSON line. `result` has `columns`, `rows` (strings), `targets`
 * and `notes`.
 */
export function print (name, title, result, command, before) {
  const after = machine()
  const { columns, rows, targets, notes = [], data = {} } = result
  const load = `load ${before.load[0]} before, ${after.load[0]} after`
  const parts = [
    `## ${title}`,
    '',
    `${before.cpu}, ${before.cores} cores, Node ${before.node}, ${load};`,
    `${before.date}, commit ${before.commit}; \`${command}\``,
    '',
    table(columns, rows),
    ...(targets.length === 0 ? [] : ['', targetTable(targets)]),
    ...(notes.length === 0 ? [] : ['', ...notes.map((note) => `- ${note}`)]),
    ''
  ]
  const json = {
    bench: name,
    ...before,
    loadAfter: after.load,
    command,
    targets: targets.map((t) => ({ ...t, verdict: verdict(t).replaceAll('*', '') })),
    data
  }
  process.stdout.write(`${parts.join('\n')}\n${JSON.stringify(json)}\n\n`)
}
