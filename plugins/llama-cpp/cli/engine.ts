import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { resolve, sep } from 'node:path'
import { promisify } from 'node:util'
import { GGUF_ENGINE, LLAMA_SERVER } from '../engine.js'
import { buildsOf, findLibrary, findProgram, overrideVariable, runtimeFiles } from '../../runners/service.js'
import { addBuild, ENGINE, removeBuild } from '../builds/add.js'
import { withErrorText, withParts } from './adding.js'
import type { Build } from '../../runners/service.js'
import { engineHelp, type Verb, type VerbContext } from '../../../kernel/cli/index.js'

const VARIABLE = overrideVariable(GGUF_ENGINE)

export const ls: Verb = {
  async run (ctx) {
    const builds = buildsOf(ctx.home, ENGINE)
    const other = otherProgram(ctx)
    const programs = await programsOf(ctx)
    if (ctx.out.json) {
      const all = builds.map((build, i) => ({ engine: ENGINE, ...build, used: i === 0 && other === null }))
      ctx.out.value({ builds: all, other, programs })
      return
    }
    if (builds.length === 0) {
      ctx.err.line(`no build is installed; \`svc engine add ${ENGINE}\` installs one`)
      if (other === null) ctx.err.line(libraryInWords())
    } else {
      ctx.out.table(['ENGINE', 'BUILD', 'SINCE', 'USED', 'DEVICES'], builds.map((build, i) => [
        ENGINE, build.name, build.usedSince, i === 0 && other === null ? 'yes' : '-',
        build.devices.join('; ') || 'CPU'
      ]))
    }
    if (other !== null) ctx.err.line(`${other} is used`)
    ctx.out.table(['PROGRAM', 'PATH', 'USABLE'], programs.map(({ words, path, problem }) =>
      [words, path || '-', problem ?? 'yes']))
  }
}

/** Programs that the plugins of other engines find. */
async function programsOf (ctx: VerbContext) {
  const engines = (await ctx.plugins()).flatMap(({ manifest: { engines = {} } }) => Object.keys(engines))
  const helps = await Promise.all(engines.map(async (name) => await engineHelp(ctx, name)))
  return (await Promise.all(helps.map(async ({ programs }) => await programs?.(ctx) ?? []))).flat()
}

export const add: Verb = {
  async run (ctx, [engine], options) {
    mustBeKnown(ctx, engine!)
    const files = (options['from'] as string[] | undefined ?? []).map((file) => resolve(ctx.io.cwd, file))
    const wanted = {
      files, sha256: options['sha256'] as string[] | undefined ?? [],
      tag: options['build'] as string | undefined, backend: options['backend'] as string | undefined
    }
    const { build, added } = await withErrorText(ctx, async () => await withParts(ctx, wanted, addBuild))
    const other = otherProgram(ctx)
    if (ctx.out.json) return ctx.out.value({ engine: ENGINE, ...build, added, used: other === null })
    const devices = build.devices.join('; ') || 'the CPU'
    ctx.out.line(`${ENGINE} ${build.name} is ${added ? '' : 'already '}installed; it computes on ${devices}`)
    if (build.backend !== 'cpu' && build.devices.length === 0) {
      ctx.err.line(`it was built for ${build.backend} but finds no such device: check the driver`)
    }
    ctx.err.line(other === null ? 'GGUF models use it from their next placement; no restart is needed'
      : `${other} takes precedence and stays in use`)
  }
}

export const rm: Verb = {
  async run (ctx, [engine, name]) {
    mustBeKnown(ctx, engine!)
    const builds = buildsOf(ctx.home, ENGINE)
    const build = builds.find((one) => one.name === name)
    if (build === undefined) {
      const names = builds.map((one) => one.name).join(', ')
      throw ctx.fail(3, `there is no build ${name!}; installed: ${names || 'none'}`)
    }
    const users = await usersOf(build)
    if (users.length > 0) {
      throw ctx.fail(1, `${build.name} is in use by process ${users.join(', ')}: stop the models that run ` +
        'on it first (`svc ps` shows them)')
    }
    await withErrorText(ctx, async () => { await removeBuild(build) })
    if (ctx.out.json) ctx.out.value({ engine: ENGINE, removed: build.name })
    else ctx.out.line(`${ENGINE} ${build.name} is removed`)
  }
}

function mustBeKnown (ctx: VerbContext, engine: string): void {
  if (engine !== ENGINE) throw ctx.fail(3, `there is no engine "${engine}"; svc installs only ${ENGINE}`)
}

/** A llama-server set by variable or in PATH, as text for messages; it overrides installed builds. */
function otherProgram ({ home, io: { env } }: VerbContext): string | null {
  if (env[VARIABLE] !== undefined) return `${VARIABLE}, ${env[VARIABLE]},`
  const found = findProgram({ home, env }, LLAMA_SERVER)
  return found?.from === 'path' ? `${found.path}, which is in PATH,` : null
}

/** A sentence about how GGUF models run if there is no llama-server. */
function libraryInWords (): string {
  const { otherwise } = LLAMA_SERVER
  const found = findLibrary(runtimeFiles(), otherwise)
  return typeof found === 'string' ? `there is no engine for GGUF models: ${found}`
    : `GGUF models run on ${otherwise.name}, on the CPU; llama-server adds images, GPUs and several nodes`
}

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
