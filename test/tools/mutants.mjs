// Puts faults into the product, one at a time, and runs the tests that must detect them:
// node test/tools/mutants.mjs [NUMBER ...]
// It changes files and restores them, so run it in a separate checkout. A surviving mutant shows that a test
// is missing, or that the code is not needed.
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Areas of the product with their tested files and their tests. */
const AREAS = {
  election: ['plugins/cluster/election/', 'plugins/cluster/test/', /^election/, 'test/sim/sim.test.ts'],
  planner: ['plugins/placement/planner/', 'plugins/placement/test/', /^(planner|memory-fit)/],
  routing: ['plugins/runners/routing/', 'plugins/runners/test/', /^(availability|pick|routing|remote|chain)/],
  publish: ['plugins/staging/files/', 'plugins/staging/test/', /^(files|store-crash)/],
  guards: ['kernel/http/', 'kernel/test/', /^(connection-limiter|origin|callers|http|tokens)/]
}

/** Area, file, text to replace, and its replacement. */
const MUTANTS = [
  ['election', 'rules.ts', 'yes >= needed ? \'won\' : expired', 'yes > needed ? \'won\' : expired'],
  ['election', 'rules.ts', 'if (refused) return \'lost\'\n', ''],
  ['election', 'rules.ts',
    'if (leader.term !== voted.term) return leader.term > voted.term',
    'if (leader.term !== voted.term) return leader.term >= voted.term - 1'],
  ['election', 'rules.ts', 'return mode === \'majority\' || voted.master === leader.master', 'return true'],
  ['election', 'rules.ts',
    '(known === 0 || (alive === 0 && waited > silence))',
    '(known === 0 || alive === 0)'],
  ['election', 'rules.ts',
    'mayReplace: (incoming: LogPosition, own: LogPosition): boolean => byPosition(incoming, own) >= 0',
    'mayReplace: (): boolean => true'],
  ['election', 'rules.ts',
    'upToDate: (candidate: LogPosition, voter: LogPosition): boolean => byPosition(candidate, voter) >= 0',
    'upToDate: (candidate: LogPosition, voter: LogPosition): boolean => byPosition(candidate, voter) >= -1'],
  ['election', 'rules.ts', 'return Math.floor(voters / 2) + 1', 'return Math.ceil(voters / 2)'],
  ['election', 'rules.ts', 'added + removed !== 1', 'added + removed > 2'],
  ['election', 'rules.ts', 'if (!to.includes(master)) return \'voters_self\'\n', ''],
  ['election', 'campaign.ts',
    'const grant = !e.hasLiveMaster(now) || e.leader?.master === from',
    'const grant = true'],
  ['election', 'voting.ts', 'if (!stored) return \'abstain\'\n', ''],
  ['election', 'voting.ts',
    'if (e.hasLiveMaster(now) && e.leader?.sid !== leader.sid) return false\n',
    ''],
  ['election', 'campaign.ts',
    'phase.role !== \'claim\' || phase.leader.sid !== answer.sid || !phase.waiting.delete(from)',
    'phase.role !== \'claim\' || !phase.waiting.delete(from)'],
  ['election', 'follower.ts', 'if (same && leader.term < (e.leader?.term ?? 0)) return false\n', ''],
  ['election', 'liveness.ts',
    '(beat.boot - peer.boot || beat.count - peer.count) <= 0',
    '(beat.count - peer.count) <= 0'],
  ['election', 'liveness.ts', 'if (connected && now - heardAt < this.#silence)', 'if (connected)'],
  ['planner', 'memory.ts', 'Math.floor(ramTotal * 3 / 4)', 'Math.floor(ramTotal * 4 / 5)'],
  ['planner', 'memory.ts', 'Math.floor(totalBytes * 9 / 10)', 'totalBytes'],
  ['planner', 'memory.ts',
    'Math.max(0, Math.floor(freeSoon - reservedBytes))',
    'Math.max(0, Math.floor(freeSoon))'],
  ['planner', 'memory.ts', 'Math.min(freeBytes + releasingBytes, limitBytes)', 'freeBytes + releasingBytes'],
  ['planner', 'memory.ts',
    'neededBytes + reservedBytes >= Math.floor(limitBytes)',
    'neededBytes + reservedBytes > Math.floor(limitBytes)'],
  ['planner', 'candidates.ts',
    '.neededBytes < on.usable.usableBytes) fits = middle',
    '.neededBytes <= on.usable.usableBytes) fits = middle'],
  ['planner', 'candidates.ts',
    'if (helps && counts.slice(0, -1).every((count) => count === 0)) return 0\n',
    ''],
  ['planner', 'arrange.ts',
    'return b.candidate.stagedBytes - a.candidate.stagedBytes ||',
    'return a.candidate.stagedBytes - b.candidate.stagedBytes ||'],
  ['planner', 'arrange.ts',
    'if (option.order <= worst && layers > (best?.layers ?? 0))',
    'if (layers > (best?.layers ?? 0))'],
  ['planner', 'arrange.ts', 'if (counts[i]! >= capacity) return', 'if (counts[i]! > capacity) return'],
  ['planner', 'search.ts',
    'path.length === size && near.get(next)!.includes(path[0]!)',
    'path.length === size'],
  ['planner', 'search.ts', 'if (--budget.steps < until) return false', '--budget.steps'],
  ['planner', 'solve.ts',
    ' && minNodes > card.nLayers) return tooFewLayers(request)', ' && false) return tooFewLayers(request)'],
  ['planner', 'solve.ts', 'n > 0 && n % size === 0', 'n % size === 0'],
  ['planner', 'slots.ts', 'const SHARE = 1 / 4', 'const SHARE = 1 / 2'],
  ['routing', 'pick.ts', 'return a.load - b.load ||', 'return b.load - a.load ||'],
  ['routing', 'pick.ts', 'Number(b.own) - Number(a.own)', 'Number(a.own) - Number(b.own)'],
  ['routing', 'availability.ts',
    'serves(kindOf(status)) && !isDraining(ring) && !isRpcServerNode(ring, nodeId)',
    'serves(kindOf(status)) && !lends(ring, nodeId)'],
  ['routing', 'availability.ts',
    'serves(kindOf(status)) && !isDraining(ring) && !isRpcServerNode(ring, nodeId)',
    'serves(kindOf(status)) && !isDraining(ring)'],
  ['routing', 'availability.ts',
    'const status = node.leaving === true ? null\n          : member',
    'const status = member'],
  ['routing', 'availability.ts', 'if (node?.live !== true) return []', 'if (node === undefined) return []'],
  ['routing', 'availability.ts',
    '\'RunnerRunning\' in status ? Math.max(open, 1) : open',
    '\'RunnerRunning\' in status ? open : open'],
  ['routing', 'availability.ts',
    'if (others !== null) return open + others',
    'if (others !== null) return others'],
  ['routing', 'availability.ts', 'failure === undefined ? statusRank(runner) : -1', 'statusRank(runner)'],
  ['publish', 'seal.ts', 'if (own.length !== 1 || own[0] !== RECORD_FILE) return false\n', ''],
  ['publish', 'seal.ts', 'sizes.get(path) !== size)?.path', '!sizes.has(path))?.path'],
  ['publish', 'seal.ts', '  await keepOnly(folder, named)\n', ''],
  ['publish', 'seal.ts',
    'if (!named(path, entry) && !isOwnFile(path, entry)) return path',
    'if (!named(path, entry) && !isOwnFile(path, entry) && entry.isDirectory()) return path'],
  ['publish', 'root.ts', 'if (!await isRealFolder(to)) await rename(old, to)\n', ''],
  ['publish', 'root.ts', 'if (!ours) throw notOurs(directory)\n', ''],
  ['publish', 'root.ts', 'else if (!await isTransfer(folder)) throw notOurs(folder)\n', ''],
  ['publish', 'root.ts',
    'const same = there?.record != null && digestOf(there.record) === digestOf(checked)',
    'const same = there?.record != null'],
  ['publish', 'root.ts', 'if (mtimeMs < before && !live.has(modelId))', 'if (mtimeMs < before)'],
  ['publish', 'root.ts',
    'if (!await removeCopy(trash)) await rename(trash, directory)',
    'await removeCopy(trash)'],
  ['publish', 'root.ts',
    'if (found.length !== checked.manifest.files.length) {',
    'if (found.length < checked.manifest.files.length) {'],
  ['publish', 'names.ts', 'if (part.includes(\'..\')) return \'two dots in a row are not allowed\'\n', ''],
  ['publish', 'names.ts',
    'folded.startsWith(\'.svc\') || folded === \'.last_used\'',
    'name.startsWith(\'.svc\') || name === \'.last_used\''],
  ['guards', 'access.ts', 'if (device !== null) throw relayedOnly()\n', ''],
  ['guards', 'access.ts', '!indirect && isLoopback(remoteAddress)', 'isLoopback(remoteAddress)'],
  ['guards', 'access.ts', '!token.startsWith(\'svc_\') && isHere()', 'isHere()'],
  ['guards', 'access.ts',
    'if (recent.length >= FAILURES_PER_MINUTE) {',
    'if (recent.length > FAILURES_PER_MINUTE * 10) {'],
  ['guards', 'access.ts', 'if (member !== undefined && members !== true) {', 'if (false) {'],
  ['guards', 'connection-limiter.ts',
    'if (free?.(socket.remoteAddress ?? \'\') !== true && this.held(socket) > perNetwork)',
    'if (this.held(socket) > perNetwork)'],
  ['guards', 'connection-limiter.ts', '.slice(0, 4).join(\':\')', '.slice(0, 5).join(\':\')'],
  ['guards', 'connection-limiter.ts',
    'if (left > 0) this.#held.set(unproven.network, left)',
    'if (left >= 0) this.#held.set(unproven.network, left + 1)'],
  ['guards', 'origin.ts', 'if (host.port !== null && host.port !== served.port) return false\n', ''],
  ['guards', 'origin.ts',
    'hints.site === \'cross-site\' || hints.site === \'same-site\'',
    'hints.site === \'cross-site\''],
  ['guards', 'origin.ts',
    '!(method === \'GET\' && hints.mode === \'navigate\')',
    'hints.mode !== \'navigate\''],
  ['guards', 'origin.ts', 'url.protocol === scheme && hostAllowed', 'hostAllowed'],
  ['guards', 'forwarded.ts',
    'typeof id === \'string\' && id !== \'\' && MODES.has(mode)',
    'typeof id === \'string\' && id !== \'\''],
  ['guards', 'callers.ts',
    'if (word.toLowerCase() !== scheme.word.toLowerCase() && bearer !== scheme.bearer) continue',
    'if (word !== scheme.word && bearer !== scheme.bearer) continue']
]

const root = fileURLToPath(new URL('../..', import.meta.url))
process.chdir(root)

function testsOf ([, folder, names, ...more]) {
  const { stdout } = spawnSync('git', ['ls-files', folder], { encoding: 'utf8' })
  const own = stdout.split('\n')
    .filter((path) => path.endsWith('.test.ts') && names.test(path.slice(folder.length)))
  return [...own, ...more]
}

const wanted = process.argv.slice(2).map(Number)
let survivors = 0
for (const [number, [name, file, from, to]] of MUTANTS.entries()) {
  if (wanted.length > 0 && !wanted.includes(number)) continue
  const path = AREAS[name][0] + file
  const text = readFileSync(path, 'utf8')
  if (text.split(from).length !== 2) throw new Error(`${number}: ${path} must contain this once: ${from}`)
  writeFileSync(path, text.replace(from, () => to))
  const command = ['test/run.mjs', ...testsOf(AREAS[name])]
  const { status } = spawnSync(process.execPath, command, { stdio: 'ignore' })
  writeFileSync(path, text)
  if (status === 0) survivors++
  const end = status === 0 ? 'SURVIVED' : 'killed'
  process.stdout.write(`${number} ${end} ${path} ${JSON.stringify(from.slice(0, 60))}\n`)
}
process.stdout.write(`${survivors} survived\n`)
process.exitCode = survivors > 0 ? 1 : 0
