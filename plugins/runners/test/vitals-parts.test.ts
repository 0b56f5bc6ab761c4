import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { systemClock, type Gpu } from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { gpusOf, parseSmi, readGpus, readProcessorHeat, summarize, usableGpus } from '../machine/gpu.js'
import { systemInformation, type MachineIo } from '../machine/io.js'
import {
  parseNetDev, ratesOf, trafficOf, cgroupFolders, limitByCgroup, memoryOf, parseCgroup, parseMeminfo,
  readLinuxMemory, busyShare, type CgroupMemory
} from '../machine/vitals.js'
import type os from 'node:os'

const GIB = 1024 ** 3

t.test('the folders of the groups a process is in', (t) => {
  const check = (content: string, expected: ReturnType<typeof cgroupFolders>): void => {
    t.same(cgroupFolders(content), expected, content)
  }
  check('', [])
  check('nonsense', [])
  check('0::/\n', [{ version: 2, folders: ['/sys/fs/cgroup'] }])
  check('0::/system.slice/svc.service', [{ version: 2, folders: [
    '/sys/fs/cgroup/system.slice/svc.service', '/sys/fs/cgroup/system.slice', '/sys/fs/cgroup'
  ] }])
  check('5:cpu,cpuacct:/a\n4:memory:/docker/b\n1:name=systemd:/c', [{ version: 1, folders: [
    '/sys/fs/cgroup/memory/docker/b', '/sys/fs/cgroup/memory/docker', '/sys/fs/cgroup/memory'
  ] }])
  check('0::/../../etc', [{ version: 2, folders: ['/sys/fs/cgroup/etc', '/sys/fs/cgroup'] }])
  t.end()
})

t.test('a group out of its files', (t) => {
  const check = (
    version: 1 | 2, [limit, usage, stat]: [string, string, string], expected: CgroupMemory
  ): void => {
    t.same(parseCgroup(version, { limit, usage, stat }), expected, `version ${version}, ${limit.trim()}`)
  }
  check(2,
    ['1000\n', '300\n', 'anon 5\ninactive_file 70\nactive_file 9\nslab_reclaimable 4\nworkingset_x 1\n'],
    { max: 1000, current: 300, reclaimable: 83 })
  check(2, ['max\n', '300\n', ''], { max: null, current: 300, reclaimable: 0 })
  check(2, ['', '', ''], { max: null, current: 0, reclaimable: 0 })
  check(1, ['1000\n', '300\n', 'inactive_file 1\ntotal_inactive_file 70\ntotal_active_file 5\n'],
    { max: 1000, current: 300, reclaimable: 75 })
  check(1, ['9223372036854771712\n', '300\n', ''], { max: null, current: 300, reclaimable: 0 })
  check(1, ['0\n', '0\n', ''], { max: 0, current: 0, reclaimable: 0 })
  t.end()
})

t.test('memory of a Linux machine in groups', async (t) => {
  const meminfo = `MemTotal: ${16 * 1024 ** 2} kB\nMemAvailable: ${10 * 1024 ** 2} kB\n`
  const check = async (
    title: string, files: Record<string, string>, expected: { total: number, available: number }
  ): Promise<void> => {
    const all: Record<string, string> = { '/proc/meminfo': meminfo, ...files }
    t.match(await readLinuxMemory(async (path) => all[path] ?? ''),
      { total: expected.total * GIB, available: expected.available * GIB, swapTotal: 0 }, title)
  }
  const group = (base: string, limit: string, usage: string, max: number, used: number): object => ({
    [`${base}/${limit}`]: `${max * GIB}\n`, [`${base}/${usage}`]: `${used * GIB}\n`
  })
  const v2 = (path: string, max: number, used: number): object =>
    group(`/sys/fs/cgroup${path}`, 'memory.max', 'memory.current', max, used)
  const v1 = (path: string, max: number, used: number): object =>
    group(`/sys/fs/cgroup/memory${path}`, 'memory.limit_in_bytes', 'memory.usage_in_bytes', max, used)
  await check('no groups', {}, { total: 16, available: 10 })
  await check('version 2, no limit', { '/proc/self/cgroup': '0::/' }, { total: 16, available: 10 })
  await check('version 2', { '/proc/self/cgroup': '0::/a', ...v2('/a', 4, 1) }, { total: 4, available: 3 })
  await check('version 2, the group around is tighter',
    { '/proc/self/cgroup': '0::/a/b', ...v2('/a/b', 8, 1), ...v2('/a', 6, 5) }, { total: 6, available: 1 })
  await check('version 2, in a container whose path is not its own',
    { '/proc/self/cgroup': '0::/host/x', ...v2('', 2, 1) }, { total: 2, available: 1 })
  await check('version 1 beside an empty version 2',
    { '/proc/self/cgroup': '4:memory:/d\n0::/', ...v1('/d', 3, 1) }, { total: 3, available: 2 })
  const stat = { '/sys/fs/cgroup/a/memory.stat': `inactive_file ${GIB}\nactive_file ${2 * GIB}` }
  await check('page cache can be given back, what was read twice too',
    { '/proc/self/cgroup': '0::/a', ...v2('/a', 4, 4), ...stat }, { total: 4, available: 3 })
  const arc = (size: number): Record<string, string> => ({
    '/proc/spl/kstat/zfs/arcstats': 'name type data\n' +
      `c_min                           4    ${GIB}\nsize                            4    ${size * GIB}\n`
  })
  await check('the cache of ZFS can be given back, but for its minimum', arc(5), { total: 16, available: 14 })
  await check('one below its minimum gives nothing', arc(0.5), { total: 16, available: 10 })
  await check('and no more than there is', arc(12), { total: 16, available: 16 })
})

t.test('memory of other systems', (t) => {
  t.same(memoryOf({ total: 8, available: 3 }), { total: 8, available: 3, swapTotal: 0, swapFree: 0 })
  for (const answer of [undefined, {}, { total: 8, available: NaN }, { total: '8', available: 1 }]) {
    t.throws(() => memoryOf(answer), /systeminformation has no valid "(total|available)"/)
  }
  t.end()
})

t.test('traffic', (t) => {
  const dev = parseNetDev(`Inter-|   Receive
 face |bytes    packets
    lo: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0
  eth0:300 1 0 0 0 0 0 0 400 1 0 0 0 0 0 0
 short: 1 2
`)
  t.same([...dev], [['lo', { rx: 10, tx: 20 }], ['eth0', { rx: 300, tx: 400 }]])
  t.same([...parseNetDev('')], [])
  t.same([...trafficOf([{ iface: 'en0', rx_bytes: 1, tx_bytes: 2 }, { iface: 'x', rx_bytes: null }, {}])],
    [['en0', { rx: 1, tx: 2 }]])
  t.same([...trafficOf('nonsense')], [])
  const check = (ms: number, name: string, expected: (number | null)[]): void => {
    const rates = ratesOf(name, dev, new Map([['lo', { rx: 1010, tx: 0 }]]), ms)
    t.same([rates.rxBytesPerSecond, rates.txBytesPerSecond], expected, `${name}, ${ms} ms`)
  }
  check(500, 'lo', [2000, null])
  check(0, 'lo', [null, null])
  check(500, 'eth0', [null, null])
  check(500, 'unknown', [null, null])
  t.end()
})

t.test('GPUs out of systeminformation', (t) => {
  const still = { controllers: [{ vendor: 'Red Hat, Inc.', model: 'Virtio', vram: 256 }] }
  for (const answer of [undefined, {}, { controllers: 'x' }, still]) t.same(gpusOf(answer), [])
  const check = (vendor: string, vram: number | null, expected: object): void => {
    const answer = { controllers: [{ vendor, model: 'A', vram }] }
    t.match(gpusOf(answer), [{ name: 'A', ...expected }], vendor)
  }
  check('NVIDIA', 2, { vendor: 'nvidia', vramTotalBytes: 2 * 1024 ** 2, vramUsedBytes: null })
  check('Advanced Micro Devices, Inc. [AMD/ATI]', 2, { vendor: 'amd', vramTotalBytes: 2 * 1024 ** 2 })
  check('Intel Corporation', 2, { vendor: 'intel', vramTotalBytes: null })
  check('Apple', null, { vendor: 'apple', vramTotalBytes: null })
  t.same(gpusOf({ controllers: [{ vendor: 'Spatial' }] }), [], 'a word that only contains a name')
  t.end()
})

t.test('GPUs out of nvidia-smi', (t) => {
  t.same(parseSmi(''), [])
  t.same(parseSmi('No devices were found\n'), [])
  t.match(parseSmi('NVIDIA A, 50, 1024, 512, 71.50, 40\nTesla, B, [N/A], 1024, 0, [N/A], 35\n'), [
    { vendor: 'nvidia', name: 'NVIDIA A', utilizationRatio: 0.5, vramUsedBytes: GIB / 2, powerWatts: 71.5 },
    { name: 'Tesla, B', utilizationRatio: null, vramTotalBytes: GIB, powerWatts: null }
  ])
  t.end()
})

const names = (tree: Record<string, string>) => async (folder: string): Promise<string[]> => [...new Set(
  Object.keys(tree).filter((path) => path.startsWith(`${folder}/`))
    .map((path) => path.slice(folder.length + 1).split('/')[0]!))]
const content = (tree: Record<string, string>) => async (path: string): Promise<string> => tree[path] ?? ''

/** A machine with these files; `smi` is the output of nvidia-smi. */
function withFiles (tree: Record<string, string>, more: Partial<MachineIo> = {}): MachineIo {
  const none = async (): Promise<never> => { throw new Error('not there\nmore') }
  return {
    platform: 'linux', read: content(tree), list: names(tree), ask: none, nvidiaSmi: none, space: none,
    cpus: () => [], addresses: () => ({}), ...more
  }
}

t.test('GPUs of a Linux machine', async (t) => {
  const H200 = 'NVIDIA H200, 50, 143771, 1024, 350.5, 61\n'
  const device = { '/dev/nvidia0': '', '/dev/nvidiactl': '' }
  const driver = { '/proc/driver/nvidia/gpus/0000:01:00.0/information': 'Model: \t\t NVIDIA H200\nIRQ: 1' }
  const pci = (slot: number, vendor: string, kind = '0x030000'): Record<string, string> => ({
    [`/sys/bus/pci/devices/0000:0${slot}:00.0/vendor`]: `${vendor}\n`,
    [`/sys/bus/pci/devices/0000:0${slot}:00.0/class`]: `${kind}\n`
  })
  const check = async (
    title: string, tree: Record<string, string>, expected: object[], more: Partial<MachineIo> = {},
    problem?: RegExp
  ): Promise<void> => {
    const { gpus, problems } = await readGpus(withFiles(tree, more))
    t.match(gpus, expected, title)
    t.equal(gpus.length, expected.length, title)
    t.equal(problems.length, problem === undefined ? 0 : 1, title)
    if (problem !== undefined) t.match(problems[0], problem)
  }
  const nvidiaSmi = async (): Promise<string> => H200
  const unknown = { vramTotalBytes: null, utilizationRatio: null }
  await check('none', {}, [])
  await check('the NVIDIA tools', { ...device, ...driver },
    [{ vendor: 'nvidia', name: 'NVIDIA H200', vramTotalBytes: 143_771 * 1024 ** 2, utilizationRatio: 0.5 }],
    { nvidiaSmi })
  await check('two', device, [{ name: 'NVIDIA H200' }, { name: 'NVIDIA, strange', powerWatts: null }],
    { nvidiaSmi: async () => `${H200}NVIDIA, strange, 1, 2, 3, [N/A], 4\n` })
  await check('a driver without its tool', { ...device, ...driver },
    [{ vendor: 'nvidia', name: 'NVIDIA H200', ...unknown }], {}, /^nvidia-smi: not there$/)
  await check('a device file alone', device, [{ name: 'NVIDIA GPU', ...unknown }], {}, /nvidia-smi/)
  await check('a tool that answers without memory', device, [{ name: 'NVIDIA GB10', vramTotalBytes: null }],
    { nvidiaSmi: async () => 'NVIDIA GB10, [N/A], [N/A], [N/A], 4, 40\n' })
  await check('a card without its driver: no program is run', pci(1, '0x10de', '0x030200'),
    [{ vendor: 'nvidia', ...unknown }])
  await check('a built-in GPU', pci(0, '0x8086'), [{ vendor: 'intel', ...unknown }])
  await check('a display chip of a server, and other devices',
    { ...pci(0, '0x1a03'), ...pci(1, '0x10de', '0x040300'), ...pci(2, '0x8086', '0x120000') }, [])
  await check('an accelerator of AMD without a display, listed after NVIDIA',
    { ...pci(1, '0x1002', '0x120000'), ...device }, [{ vendor: 'nvidia' }, { vendor: 'amd' }], { nvidiaSmi })
})

t.test('GPUs out of the files of amdgpu', async (t) => {
  const device = '/sys/bus/pci/devices/0000:03:00.0'
  const card = { [`${device}/vendor`]: '0x1002\n', [`${device}/class`]: '0x030000\n' }
  const tree = {
    ...card,
    [`${device}/gpu_busy_percent`]: '25\n',
    [`${device}/mem_info_vram_total`]: `${8 * GIB}\n`,
    [`${device}/mem_info_vram_used`]: `${GIB}\n`,
    [`${device}/hwmon/hwmon3/power1_average`]: '45000000\n',
    [`${device}/hwmon/hwmon3/temp1_input`]: '51000\n'
  }
  t.same(await readGpus(withFiles(tree)), {
    gpus: [{
      vendor: 'amd', name: 'AMD GPU', utilizationRatio: 0.25, vramTotalBytes: 8 * GIB, vramUsedBytes: GIB,
      powerWatts: 45, temperatureCelsius: 51
    }],
    problems: [], vramByPid: new Map()
  })
  t.match(await readGpus(withFiles(card)), { gpus: [{ utilizationRatio: null, powerWatts: null }] })
})

t.test('heat of the processor', async (t) => {
  const check = async (tree: Record<string, string>, expected: number | null): Promise<void> => {
    t.equal(await readProcessorHeat(withFiles(tree)), expected)
  }
  const [mon, zone] = ['/sys/class/hwmon/hwmon', '/sys/class/thermal/thermal_zone']
  await check({}, null)
  await check({ [`${mon}0/name`]: 'nvme\n', [`${mon}0/temp1_input`]: '70000\n' }, null)
  await check({ [`${mon}1/name`]: 'k10temp\n', [`${mon}1/temp1_input`]: '48250\n' }, 48.25)
  const package_ = { [`${zone}0/type`]: 'x86_pkg_temp\n', [`${zone}0/temp`]: '40000\n' }
  await check({ [`${mon}1/name`]: 'coretemp\n', ...package_ }, 40)
  await check({ [`${zone}0/type`]: 'battery\n', [`${zone}0/temp`]: '30000\n' }, null)
})

t.test('the GPUs that programs can use', async (t) => {
  const all = ['n0', 'n1', 'a0'].map((name) =>
    ({ vendor: name.startsWith('n') ? 'nvidia' : 'amd', name }) as Gpu)
  const cases: [string | undefined, string[]][] = [
    [undefined, ['n0', 'n1', 'a0']], ['1', ['n1', 'a0']], ['1,0', ['n1', 'n0', 'a0']], ['', ['a0']],
    ['-1', ['a0']], ['0,7,1', ['n0', 'a0']], ['GPU-8932f937', ['n0', 'a0']]
  ]
  for (const [named, expected] of cases) {
    const seen = usableGpus(all, { CUDA_VISIBLE_DEVICES: named })
    t.strictSame(seen.map(({ name }) => name), expected, String(named))
  }
})

t.test('one picture of several GPUs', (t) => {
  const gpu = (busy: number | null, watts: number | null, celsius: number | null): Gpu => ({
    vendor: 'amd', name: 'n', vramTotalBytes: 1, vramUsedBytes: 0,
    utilizationRatio: busy, powerWatts: watts, temperatureCelsius: celsius
  })
  const check = (gpus: Gpu[], heat: number | null, expected: (number | null)[]): void => {
    const { gpuUsage, sysPower, temp, accelerator } = summarize(gpus, heat)
    t.same([gpuUsage, sysPower, temp], expected)
    t.equal(accelerator, gpus[0] ?? null)
  }
  check([], null, [null, null, null])
  check([], 50, [null, null, 50])
  check([gpu(0.2, 10, 60), gpu(0.6, 30, null)], 50, [0.4, 40, 60])
  check([gpu(null, null, 40)], 50, [null, null, 50])
  t.end()
})

/** The child process does not keep this process alive, so a timer must. */
const awake = setInterval(() => {}, 1000)
t.teardown(() => { clearInterval(awake) })

/** A fake module with the functions of systeminformation. */
function standIn (t: Test, source: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-asker-'))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  const file = join(folder, 'stand-in.mjs')
  writeFileSync(file, `export default { ${source} }`)
  return pathToFileURL(file).href
}

t.test('systeminformation is asked in a process of its own', async (t) => {
  const ask = systemInformation(systemClock)
  const [memory, version] = await Promise.all([ask('mem'), ask('version')])
  t.ok(memoryOf(memory).total > 0)
  t.type(version, 'string')
})

t.test('one process answers one question after the other', async (t) => {
  const ask = systemInformation(systemClock, standIn(t, `
    n: 0,
    async count (by) { this.n += by; return { n: this.n, home: process.env.HOME ?? null } },
    pid () { return process.pid },
    refuse () { throw new Error('no such sensor') }`))
  const answers = [1, 10, 100].map((by) => ask('count', by))
  t.same(await Promise.all(answers), [1, 11, 111].map((n) => ({ n, home: null })))
  const pid = await ask('pid')
  await t.rejects(ask('refuse'), /no such sensor/)
  await t.rejects(ask('unknown'), /not a function/)
  t.equal(await ask('pid'), pid)
})

t.test('a process that hangs or dies is ended, and the next question gets another', async (t) => {
  const module = standIn(t, `
    hang () { for (;;) {} },
    die () { process.exit(3) },
    pid () { return process.pid }`)
  const clock = manualClock()
  const ask = systemInformation(clock, module)
  const first = await ask('pid')
  const hung = ask('hang').then(() => 'answered', (error: Error) => error.message)
  await clock.advance(0)
  await clock.advance(14_999)
  t.equal(await Promise.race([hung, clock.advance(0)]), undefined)
  await clock.advance(1)
  t.match(await hung, /gave no answer in 15 s/)
  const second = await ask('pid')
  t.not(second, first)
  await t.rejects(ask('die'), /ended without an answer/)
  t.not(await ask('pid'), second)
})

t.test('memory as a container sees it', (t) => {
  const rows: [string, Parameters<typeof limitByCgroup>, { total: number, available: number }][] = [
    ['no limit', [100, 50, { max: null, current: 10, reclaimable: 0 }], { total: 100, available: 50 }],
    ['a limit above the machine', [100, 50, { max: 200, current: 10, reclaimable: 0 }],
      { total: 100, available: 50 }],
    ['a limit that bites', [100, 50, { max: 40, current: 30, reclaimable: 0 }],
      { total: 40, available: 10 }],
    ['page cache can be given back', [100, 50, { max: 40, current: 30, reclaimable: 20 }],
      { total: 40, available: 30 }],
    ['over the limit', [100, 50, { max: 40, current: 45, reclaimable: 0 }], { total: 40, available: 0 }]
  ]
  for (const [title, input, expect] of rows) t.same(limitByCgroup(...input), expect, title)
  t.match(parseMeminfo('MemTotal:  16 kB\nMemAvailable:   8 kB\nHugePages_Total: 0\n'),
    { MemTotal: 16384, MemAvailable: 8192 })
  t.end()
})

t.test('busy share of the cores', (t) => {
  const cpu = (user: number, idle: number): os.CpuInfo =>
    ({ model: '', speed: 0, times: { user, nice: 0, sys: 0, idle, irq: 0 } })
  t.equal(busyShare([cpu(0, 0)], [cpu(25, 75)]), 0.25)
  t.equal(busyShare([cpu(1, 1)], [cpu(1, 1)]), 0, 'no time has passed')
  t.end()
})
