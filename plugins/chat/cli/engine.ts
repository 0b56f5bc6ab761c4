import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { resolve, sep } from 'node:path'
import { promisify } from 'node:util'
import { Agent } from 'undici'
import { readSetting, showBytes } from '../../../kernel/cli/index.js'
import { buildsOf, findProgram, overrideVariable } from '../../runners/service.js'
import { addBuild, ENGINE, removeBuild } from '../builds/add.js'
import { BuildError } from '../builds/release.js'
import { manifest } from '../manifest.js'
import type { Build } from '../../runners/service.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'

const DRIVER = 'llama-server'
const { program: PROGRAM } = manifest.engines[DRIVER]
const VARIABLE = overrideVariable(DRIVER)
/** Longest wait for a connection or a head, and for the next bytes. */
const PATIENCE_MS = 60_000

/** `svc engine ls` */
export const ls: Verb = {
  async run (ctx) {
    const builds = buildsOf(ctx.home, ENGINE)
    const other = otherProgram(ctx)
    if (ctx.out.json) {
      const all = builds.map((build, i) => ({ engine: ENGINE, ...build, used: i === 0 && other === null }))
      ctx.out.value({ builds: all, other })
      return
    }
    if (builds.length === 0) ctx.err.line(`no build is here; \`svc engine add ${ENGINE}\` brings one`)
    else {
      ctx.out.table(['ENGINE', 'BUILD', 'SINCE', 'USED', 'DEVICES'], builds.map((build, i) => [
        ENGINE, build.name, build.usedSince, i === 0 && other === null ? 'yes' : '-',
        build.devices.join('; ') || 'CPU'
      ]))
    }
    if (other !== null) ctx.err.line(`${other} is used`)
  }
}

/** `svc engine add` */
export const add: Verb = {
  async run (ctx, [engine], options) {
    mustBeKnown(ctx, engine!)
    const files = (options['from'] as string[] | undefined ?? []).map((file) => resolve(ctx.io.cwd, file))
    const dispatcher = new Agent({
      connect: { timeout: PATIENCE_MS }, headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS
    })
    const { build, added } = await told(ctx, async () => await addBuild({
      home: ctx.home, signal: ctx.signal, dispatcher, files, env: ctx.io.env, now: () => new Date(),
      base: String(await readSetting(ctx, 'engines.url')),
      machine: { platform: process.platform, arch: process.arch },
      nvidia: (await readdir('/dev').catch(() => [])).some((name) => /^nvidia\d+$/.test(name)),
      tag: options['build'] as string | undefined, backend: options['backend'] as string | undefined,
      progress: progressOf(ctx)
    })).finally(() => { ctx.err.end(); void dispatcher.destroy() })
    const other = otherProgram(ctx)
    if (ctx.out.json) {
      ctx.out.value({ engine: ENGINE, ...build, added, used: other === null })
      return
    }
    const devices = build.devices.join('; ') || 'the CPU'
    ctx.out.line(`${ENGINE} ${build.name} is ${added ? 'added' : 'there already'}; it computes on ${devices}`)
    if (build.backend !== 'cpu' && build.devices.length === 0) {
      ctx.err.line(`it was built for ${build.backend} and finds no such device: look at the driver`)
    }
    ctx.err.line(other === null ? 'GGUF models run on it from their next placement on, without a restart'
      : `${other} counts more and stays in use`)
  }
}

/** `svc engine rm` */
export const rm: Verb = {
  async run (ctx, [engine, name]) {
    mustBeKnown(ctx, engine!)
    const builds = buildsOf(ctx.home, ENGINE)
    const build = builds.find((one) => one.name === name)
    if (build === undefined) {
      const names = builds.map((one) => one.name).join(', ')
      throw ctx.fail(3, `there is no build ${name!}; there is: ${names || 'none'}`)
    }
    const users = await usersOf(build)
    if (users.length > 0) {
      throw ctx.fail(1, `${build.name} is in use, by process ${users.join(', ')}: stop the models that run ` +
        'on it first (`svc ps` shows them)')
    }
    await told(ctx, async () => { await removeBuild(build) })
    if (ctx.out.json) ctx.out.value({ engine: ENGINE, removed: build.name })
    else ctx.out.line(`${ENGINE} ${build.name} is removed`)
  }
}

function mustBeKnown (ctx: VerbContext, engine: string): void {
  if (engine !== ENGINE) throw ctx.fail(3, `there is no engine "${engine}" to manage; there is: ${ENGINE}`)
}

/** Does it, and says why it did not work. */
async function told<T> (ctx: VerbContext, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof BuildError) throw ctx.fail(error.wrong ? 2 : 1, error.message)
    throw error
  }
}

/** What is used in place of a build, in words. */
function otherProgram ({ home, io: { env } }: VerbContext): string | null {
  if (env[VARIABLE] !== undefined) return `${VARIABLE}, ${env[VARIABLE]},`
  const found = findProgram({ home, env }, PROGRAM)
  return found?.from === 'path' ? `${found.path}, which is in PATH,` : null
}

/** Shows how far an archive is: on a terminal in one line, elsewhere at each tenth. Not with --json. */
function progressOf ({ io, out, err }: VerbContext): (name: string, bytes: number, total: number) => void {
  let shown = ''
  return (name, bytes, total) => {
    if (out.json) return
    const percent = Math.floor(bytes / total * 100)
    const text = `${name}  ${percent} %  ${showBytes(bytes)}/${showBytes(total)}`
    const step = `${name} ${Math.floor(percent / 10)}`
    if (io.stderr.isTTY === true) err.update(text)
    else if (step !== shown) err.line(text)
    shown = step
  }
}

/** The processes that a program of the build is. */
async function usersOf ({ folder }: Build): Promise<string[]> {
  const all = process.platform === 'linux' ? await commandsOfLinux() : await commandsOfPs()
  return all.filter(({ command }) => command.includes(folder + sep)).map(({ pid }) => pid)
}

interface Running { pid: string, command: string }

async function commandsOfLinux (): Promise<Running[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
  return await Promise.all(pids.map(async (pid) =>
    ({ pid, command: await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '') })))
}

async function commandsOfPs (): Promise<Running[]> {
  const { stdout } = await promisify(execFile)('ps', ['-axww', '-o', 'pid=,command='], { maxBuffer: 2 ** 24 })
  return [...stdout.matchAll(/^ *(\d+) (.*)$/gm)]
    .map(([, pid, command]) => ({ pid: pid!, command: command! }))
}
