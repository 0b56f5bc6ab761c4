import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { Command, CommanderError } from 'commander'
import { version } from '../boot/package.js'
import { builtIn, collectVerbs, groups, inGroup, topNames, type KnownVerb } from './builtin.js'
import {
  createClient, ownFingerprint, ownHome, ownToken, runningUrl, type Client, type ClientOptions, type Signing
} from './client.js'
import { credentialFor, failuresOf, homePlugins } from './contributed.js'
import { CliError, exitCodes, interrupted, usageError } from './errors.js'
import { globalOptions, helpTopics } from './help.js'
import { canAsk, confirm, createOut, createProgress, type Io, type Progress } from './output.js'
import { openSink } from './sink.js'
import { isRetryable, retryFor } from './waiting.js'
import { verbHeadings, type Plugin, type VerbDecl } from '../api/plugin.js'
import type { CredentialHelper, Verb, VerbContext } from './verb.js'

/** Seconds to wait for `--wait` without a value. */
const DEFAULT_WAIT_SECONDS = 60
/** The verb under which a plugin can answer questions that no page of `svc help` covers. */
const HELP = 'help'

/** Module loaders of the built-in verbs; a module is loaded only when its verb is used. */
const loaders: Readonly<Record<string, VerbDecl['load']>> = {
  up: () => import('./verbs/up.js'),
  restart: () => import('./verbs/restart.js'),
  state: () => import('./verbs/state.js'),
  'plugin ls': async () => ({ default: (await import('./verbs/plugins.js')).ls }),
  'plugin enable': async () => ({ default: (await import('./verbs/plugins.js')).enable }),
  'plugin disable': async () => ({ default: (await import('./verbs/plugins.js')).disable }),
  'config check': async () => ({ default: (await import('./verbs/config.js')).check }),
  'config get': async () => ({ default: (await import('./verbs/config.js')).get }),
  'config set': async () => ({ default: (await import('./verbs/config.js')).set }),
  'known ls': async () => ({ default: (await import('./verbs/known.js')).ls }),
  'known rm': async () => ({ default: (await import('./verbs/known.js')).rm }),
  completion: async () => ({ default: (await import('./verbs/completion.js')).completion }),
  'complete-words': async () => ({ default: (await import('./verbs/completion.js')).completeWords })
}

export interface CliOptions { io: Io, plugins: () => Promise<readonly Plugin[]>, signal: AbortSignal }

type Outputs = Pick<Io, 'stdout' | 'stderr'>

/** Runs one command line (without `node` and the script path); returns its exit status. Never throws. */
export async function runCli (argv: readonly string[], options: CliOptions): Promise<number> {
  const err = createProgress(options.io)
  const json = argv.includes('--json')
  try {
    return await execute(argv.map((word) => word === '--wait' ? '--wait=' : word), options)
  } catch (error) {
    if (error instanceof CommanderError) return commanderStatus(error)
    const debug = options.io.env['SVC_DEBUG'] === '1'
    const known = options.signal.aborted ? interrupted() : error
    return report(known, err, json, debug, json ? '' : await explanation(known, options))
  } finally {
    err.end()
  }
}

async function execute (argv: string[], options: CliOptions): Promise<number> {
  const verbs = await verbsFor(argv, options)
  let status: number | void = exitCodes.ok
  const program = buildProgram(verbs, options.io, async (verb, args, given) => {
    const module = (await (verb.load ?? loaders[verb.name]!)()).default as Verb
    const context = createContext(given, options)
    if (verb.local === true) {
      refuseElsewhere(verb.name, context)
      if (verb.load !== undefined) await refuseOff(verb, context)
    }
    status = await module.run(context, args, given)
    if (!options.signal.aborted) await context.signedBy?.used(context)
  })
  if (argv.length === 0) {
    program.outputHelp()
    return exitCodes.ok
  }
  await program.parseAsync(argv, { from: 'user' })
  return status ?? exitCodes.ok
}

/**
 * Verbs that the command line may refer to. Loads as few plugins as possible: the bundled ones only if no
 * built-in verb matches, those of svc.yaml only if no bundled verb does.
 */
async function verbsFor (argv: readonly string[], options: CliOptions): Promise<KnownVerb[]> {
  const words = operands(argv)
  const known = (verbs: readonly KnownVerb[]): boolean =>
    verbs.some(({ name }) => name.split(' ').every((word, i) => words[i] === word))
  const asksVersion = words.length === 0 && argv.some((word) => word === '-V' || word === '--version')
  if (asksVersion || known(builtIn)) return [...builtIn]
  const bundled = await options.plugins()
  const verbs = collectVerbs(builtIn, bundled.map(({ manifest }) => manifest))
  if (known(verbs.filter(({ name }) => name !== HELP))) return verbs
  const { home, io } = createContext({ home: valueOf(argv, '--home') }, options)
  const found = await homePlugins({ home, io, plugins: async () => bundled }, valueOf(argv, '--config'))
  const err = createProgress(io)
  for (const failure of failuresOf(found)) err.line(`${err.paint('yellow', 'warning:')} ${failure}`)
  return found.plugins.filter(({ source }) => source !== 'bundled').reduce((so, { manifest }) => {
    try {
      return collectVerbs(so, [manifest])
    } catch (error) {
      err.line(`${err.paint('yellow', 'warning:')} ${(error as Error).message}`)
      return so
    }
  }, verbs)
}

function refuseElsewhere (verb: string, { elsewhere, home }: VerbContext): void {
  if (elsewhere === undefined) return
  throw usageError(`svc ${verb} works on the home ${home}, but none of its nodes has the address ` +
    `${elsewhere}; run it on that machine, or omit --url (SVC_URL)`)
}

/** Throws CliError (3) for a local verb of a disabled plugin; for other verbs the node itself refuses. */
async function refuseOff ({ name, owner }: KnownVerb, context: VerbContext): Promise<void> {
  const { whyOff } = await import('./installed.js')
  const why = await whyOff(context, owner)
  if (why !== undefined) throw new CliError(exitCodes.notFound, `svc ${name} is a verb of a plugin. ${why}`)
}

/** Value of an option, needed before commander has parsed the command line. */
function valueOf (argv: readonly string[], flag: string): string | undefined {
  const at = argv.findIndex((word) => word === flag || word.startsWith(`${flag}=`))
  return argv[at] === flag ? argv[at + 1] : argv[at]?.slice(flag.length + 1)
}

function operands (argv: readonly string[]): string[] {
  const valued = globalOptions.filter(([flags]) => flags.includes('<')).map(([flags]) => flags.split(' ')[0]!)
  return argv.filter((word, i) => !word.startsWith('-') && !valued.includes(argv[i - 1] ?? ''))
}

type Run = (verb: KnownVerb, args: string[], options: Record<string, unknown>) => Promise<void>

export function buildProgram (verbs: readonly KnownVerb[], io: Outputs, run: Run): Command {
  const program = configured(new Command('svc'), io)
    .description('Turns a few machines into one inference cluster.')
    .version(version(), '-V, --version', 'print the version')
    .helpCommand(false)
    .addHelpText('after', '\nMore: svc help VERB, svc help exit-codes, svc help how do I pull a model')
  for (const [flags, description] of globalOptions) program.option(flags, description)
  const parents = new Map<string, Command>()
  // Sorted, since commander shows headings in the order of their first verbs.
  for (const verb of [...verbs].sort((a, b) => rankOf(a) - rankOf(b))) {
    const [first, second] = verb.name.split(' ') as [string, string?]
    if (verb.name === HELP) continue
    if (second === undefined) {
      addVerb(program, first, verb, io, run)
      continue
    }
    const parent = parents.get(first) ?? configured(program.command(first), io).helpCommand(false)
      .description(groups[first] ?? inGroup(verbs, first).map((v) => v.name.split(' ')[1]).join(', '))
      .helpGroup(headingOf(verb))
    parents.set(first, parent)
    addVerb(parent, second, verb, io, run)
  }
  addHelpVerb(program, io, verbs, run)
  return program
}

const LAST = 'Of your plugins'
const rankOf = ({ heading = LAST }: KnownVerb): number => verbHeadings.indexOf(heading)
const headingOf = ({ heading = LAST }: Pick<KnownVerb, 'heading'>): string => `${heading}:`

function configured (command: Command, io: Outputs): Command {
  return command.exitOverride()
    .configureOutput({ writeOut: (text) => io.stdout.write(text), writeErr: (text) => io.stderr.write(text) })
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('(svc help shows every verb, and svc help VERB its options)')
}

function addVerb (parent: Command, word: string, verb: KnownVerb, io: Outputs, run: Run): void {
  const isDefault = verb.name.endsWith(' ls') && verb.args === undefined
  const command = configured(parent.command(word, { hidden: verb.hidden === true, isDefault }), io)
    .description(verb.summary).helpGroup(verb.name.includes(' ') ? 'Commands:' : headingOf(verb))
  if (verb.args !== undefined) command.arguments(verb.args)
  for (const [flags, description] of verb.options ?? []) command.option(flags, description)
  if (verb.open === true) command.allowUnknownOption()
  command.allowExcessArguments(isDefault || verb.open === true)
  addExamples(command, verb.examples ?? [])
  command.action(async () => {
    const [extra] = isDefault ? command.args : []
    if (extra !== undefined) {
      const others = parent.commands.map((one) => one.name()).join(', ')
      throw usageError(`svc ${parent.name()} has no "${extra}", only ${others}`)
    }
    await run(verb, [...command.args], command.optsWithGlobals())
  })
}

function addExamples (command: Command, examples: readonly string[]): void {
  const lines = examples.map((line) => `\n  ${line}`).join('')
  if (lines !== '') command.addHelpText('after', `\nExamples:${lines}`)
}

/** Adds `help`, which shows a page for a verb or topic; other words go to the verb that answers questions. */
function addHelpVerb (program: Command, io: Outputs, verbs: readonly KnownVerb[], run: Run): void {
  const topics = Object.keys(helpTopics)
  const answering = verbs.find(({ name }) => name === HELP)
  const command = configured(program.command(`${HELP} [topic...]`), io).allowUnknownOption()
    .description(`${answering?.summary ?? 'show help for a verb'}, or about ${topics.join(', ')}`)
    .helpGroup(headingOf({ heading: 'Set it up' }))
  addExamples(command, answering?.examples ?? [])
  command.action(async (words: string[]) => {
    const topic = helpTopics[words.join(' ')]
    const about = commandOf(program, words)
    if (topic !== undefined) io.stdout.write(`${topic()}\n`)
    else if (about !== undefined) about.outputHelp()
    else if (answering !== undefined) await run(answering, words, command.optsWithGlobals())
    else {
      const known = [...topNames(verbs), ...topics].join(', ')
      throw usageError(`no help about "${words.join(' ')}"; topics: ${known}`)
    }
  })
}

/** The commander command for a verb's words, such as `token create`; without words, the program. */
function commandOf (program: Command, words: readonly string[]): Command | undefined {
  return words.reduce<Command | undefined>((command, word) =>
    command?.commands.find((c) => c.name() === word), program)
}

/** Exit status of a commander error: success for help and version, wrong usage for all others. */
function commanderStatus (error: CommanderError): number {
  const fine = error.code === 'commander.helpDisplayed' || error.code === 'commander.version'
  return fine ? exitCodes.ok : exitCodes.usage
}

/** Names the verb that shows what happened to the failed command; empty without a command id. */
async function explanation (error: unknown, { plugins }: CliOptions): Promise<string> {
  if (!(error instanceof CliError) || error.commandId === undefined) return ''
  const verbs = (await plugins()).flatMap(({ manifest }) => Object.entries(manifest.verbs ?? {}))
  const found = verbs.find(([, verb]) => verb.explainsCommands === true)
  return found === undefined ? '' : `\n  what happened: svc ${found[0]} ${error.commandId}`
}

/** Prints an error on stderr: a sentence, or with `--json` the node's error body. */
function report (error: unknown, err: Progress, json: boolean, debug: boolean, more: string): number {
  const known = error instanceof CliError ? error : undefined
  const message = error instanceof Error ? error.message : String(error)
  err.end()
  const shown = known?.api ?? { message, reason: 'cli', exitCode: known?.exitCode ?? exitCodes.failed }
  if (json) err.line(JSON.stringify({ error: shown }))
  else err.line(`${err.paint('red', 'svc:')} ${message}${more}`)
  if (known === undefined && debug && error instanceof Error) err.line(String(error.stack))
  return known?.exitCode ?? exitCodes.failed
}

/** `signedBy`: the helper that signed the answered requests, if any. */
interface RunContext extends VerbContext { readonly signedBy: CredentialHelper | undefined }

export function createContext (
  given: Record<string, unknown>, { io, plugins, signal }: CliOptions
): RunContext {
  const option = (name: string, variable: string): string | undefined =>
    (given[name] as string | undefined) ?? (io.env[variable] === '' ? undefined : io.env[variable])
  const home = resolve(io.cwd, option('home', 'SVC_HOME') ?? `${homedir()}/.svc`)
  const address = option('url', 'SVC_URL')
  const out = createOut(io, given['json'] === true)
  let made: Client | undefined
  let helper: CredentialHelper | undefined
  let signedBy: CredentialHelper | undefined
  const clientFor = (options: Omit<ClientOptions, 'trust' | 'signal'> & { signal?: AbortSignal }): Client =>
    createClient({
      signal, ...options,
      trust: {
        home, own: ownFingerprint(home, options.url), given: option('fingerprint', 'SVC_FINGERPRINT'),
        ask: canAsk(context) ? (question) => confirm(context, question) : undefined
      }
    })
  const client = (): Client => {
    const url = address ?? runningUrl(home)
    const chosen = option('token', 'SVC_TOKEN')?.trim()
    if (chosen !== undefined) checkToken(chosen, given['token'] === undefined ? 'SVC_TOKEN' : '--token')
    const token = chosen ?? ownToken(home, url)
    const own = chosen === undefined ? ownHome(home, url) : undefined
    const tokenFile = own === undefined ? undefined : join(own, 'operator.token')
    const signing = async (): Promise<Signing | undefined> => {
      const found = await credentialFor(plugins, home, url)
      helper = found?.helper
      return found?.signing
    }
    const answered = (): void => { signedBy = helper }
    return made ??= clientFor({ url, token, tokenFile, signing, answered })
  }
  const context: RunContext = {
    get signedBy () { return signedBy },
    get client () { return client() },
    clientFor,
    out,
    err: createProgress(io),
    home,
    get elsewhere () {
      return address === undefined || ownHome(home, address) === home ? undefined : address
    },
    wait: waitSeconds(given['wait']),
    signal,
    io,
    plugins,
    declared: async () => await (await import('./declared.js')).readDeclared(context),
    sink: (path) => openSink(path === '-' ? path : resolve(io.cwd, path), out),
    retry: (options, attempt) => retryFor({ ...options, signal }, attempt),
    notYet: isRetryable,
    fail: (code, message) => new CliError(code, message)
  }
  return context
}

/** Throws CliError (2) if the token cannot be part of an Authorization header. */
function checkToken (token: string, name: string): void {
  if (!/[^\x21-\x7e]/.test(token)) return
  throw usageError(`${name}: a token is ASCII text without white space or line breaks`)
}

function waitSeconds (given: unknown): number | undefined {
  if (given === undefined) return undefined
  if (given === '' || given === true) return DEFAULT_WAIT_SECONDS
  const seconds = Number(given)
  if (Number.isFinite(seconds) && seconds >= 0) return seconds
  throw usageError(`--wait=${String(given)}: expected a number of seconds`)
}
