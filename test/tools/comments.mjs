// Counts comments that read as translated, by folder, or lists them:  node test/tools/comments.mjs [PATH]
// With --check it fails for each folder whose share is over its limit:  npm run lint
// A hit is a hint, not a fault by itself. Limits may be lowered, but never raised.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Hits per 100 comments that a folder may have; two unless listed. */
const LIMIT = {
  'plugins/audit': 3,
  'test/llama': 3
}

const RULES = {
  'code that speaks': /\b(tells?|told|telling|hears?|heard|wants?|wanted)\b/i,
  'nobody, nothing': /\b(nobody|no one)\b|\bnothing (is|has|of|that|else|comes|waits)\b/i,
  'a clause for a noun': /(^|[.:;] )(What|Who|Whoever|Whatever) (?!to\b)[^?]*$/,
  'where for if': /(^|, )where (there|it|one|no|that|they|none|nothing) /i,
  'a vague verb': /\b(is|are|was|were|be) (made|kept|taken|had|put|meant|let go|begun|gone)\b/i,
  'an idiom': /\b(of (its|their) own|all the same|for good|at all|so long|in vain|under way|meanwhile)\b/i
}

/** The comments in a source file: `[line, text]`, neighbouring lines of one comment joined. */
function commentsOf (text) {
  const found = []
  let open
  text.split('\n').forEach((line, i) => {
    const part = /^\s*(\/\/|\/\*\*?|\*\/|\*)(.*?)(\*\/)?\s*$/.exec(line)
    if (part === null || (part[1].startsWith('*') && open === undefined)) { open = undefined; return }
    if (part[1].startsWith('/*') || open === undefined) found.push(open = [i + 1, ''])
    open[1] = `${open[1]} ${part[2].trim()}`.trim()
    if (part[3] !== undefined || part[1] === '*/') open = undefined
  })
  return found
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const [only] = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))
const files = execFileSync('git', ['ls-files', '*.ts', '*.mjs'], { cwd: root, encoding: 'utf8' })
  .split('\n').filter((path) => /^(kernel|plugins|test|docs)\//.test(path))
  .filter((path) => !/\/(fixtures|recorded)\//.test(path))
const counted = {}
for (const path of files) {
  const [top, below, ...deeper] = path.split('/')
  const folder = deeper.length > 0 && /^(plugins|test)$/.test(top) ? `${top}/${below}` : top
  const sum = counted[folder] ??= { all: 0, hits: 0 }
  for (const [line, comment] of commentsOf(readFileSync(root + path, 'utf8'))) {
    const names = Object.keys(RULES).filter((name) => RULES[name].test(comment))
    sum.all++
    if (names.length === 0) continue
    sum.hits++
    if (only === undefined || !path.startsWith(only)) continue
    console.log(`${path}:${line}: [${names.join(', ')}] ${comment}`)
  }
}
const share = ({ all, hits }) => all === 0 ? 0 : 100 * hits / all
const check = process.argv.includes('--check')
for (const [folder, sum] of Object.entries(counted)) {
  const limit = LIMIT[folder] ?? 2
  if (!check && only === undefined) console.log(folder.padEnd(26), share(sum).toFixed(1).padStart(5), limit)
  if (!check || share(sum) <= limit) continue
  console.error(`${folder}: ${share(sum).toFixed(1)} of 100 comments read as translated, the limit is ` +
    `${limit}; \`node test/tools/comments.mjs ${folder}\` lists them`)
  process.exitCode = 1
}
