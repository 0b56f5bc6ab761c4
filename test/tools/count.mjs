// Counts the lines of the product, by folder:  npm run count
// With --check it fails for each folder over its budget:  npm run lint
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Maximum number of lines per folder. A budget may rise only by what another folder gives up. */
const BUDGET = {
  kernel: 163,
  'kernel/api': 2067,
  'kernel/boot': 1616,
  'kernel/build': 342,
  'kernel/cli': 3113,
  'kernel/config': 1995,
  'kernel/http': 3197,
  'kernel/net': 731,
  'kernel/observe': 520,
  'kernel/plugins': 2372,
  'kernel/state': 1402,
  'kernel/testing': 426,
  'kernel/untrusted': 219,
  plugins: 36,
  'plugins/access': 359,
  'plugins/approvals': 607,
  'plugins/audit': 1401,
  'plugins/capabilities': 3639,
  'plugins/capabilities-stt': 2681,
  'plugins/capabilities-tts': 5506,
  'plugins/chat': 6761,
  'plugins/cluster': 9144,
  'plugins/dashboard': 9715,
  'plugins/devices': 2652,
  'plugins/diagnostics': 2433,
  'plugins/event-log': 4135,
  'plugins/llama-cpp': 6952,
  'plugins/logs': 1217,
  'plugins/mcp': 667,
  'plugins/openai-programs': 1300,
  'plugins/packages': 694,
  'plugins/placement': 6952,
  'plugins/realtime': 1652,
  'plugins/relay': 2688,
  'plugins/runners': 12755,
  'plugins/staging': 11396,
  'plugins/steward': 3506,
  'plugins/tracing': 1747,
  'plugins/upstreams': 840,
  'plugins/wyoming': 510
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const git = ['ls-files', '-z', ...['ts', 'tsx', 'mjs', 'css', 'html'].flatMap((kind) =>
  [`kernel/*.${kind}`, `plugins/*.${kind}`])]
const files = execFileSync('git', git, { cwd: root, encoding: 'utf8' }).split('\0')
  .filter((path) => path !== '' && !path.includes('/test/'))

const counted = new Map(Object.keys(BUDGET).map((folder) => [folder, 0]))
for (const path of files) {
  const [top, below] = path.split('/')
  const folder = path.split('/').length > 2 ? `${top}/${below}` : top
  const lines = readFileSync(root + path, 'utf8').split('\n').length - 1
  counted.set(folder, (counted.get(folder) ?? 0) + lines)
}

const sum = (values) => values.reduce((all, one) => all + one, 0)
const row = (name, lines, budget) =>
  `${name.padEnd(26)}${String(lines).padStart(8)}${String(budget).padStart(8)}\n`
if (process.argv.includes('--check')) {
  const over = [...counted].filter(([folder, lines]) => lines > (BUDGET[folder] ?? 0))
  for (const [folder, lines] of over) {
    process.stderr.write(`${folder}: ${lines} lines, budget ${BUDGET[folder] ?? 0} (test/tools/count.mjs)\n`)
  }
  if (over.length > 0) process.exitCode = 1
} else {
  process.stdout.write(row('', 'lines', 'budget'))
  for (const top of ['kernel', 'plugins']) {
    const within = [...counted].filter(([folder]) => folder.split('/')[0] === top)
    for (const [folder, lines] of within.sort()) process.stdout.write(row(folder, lines, BUDGET[folder] ?? 0))
  }
  process.stdout.write(row(`${files.length} files`, sum([...counted.values()]), sum(Object.values(BUDGET))))
}
