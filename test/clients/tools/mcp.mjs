// Uses a node through an official MCP client and prints the result as JSON:
// node mcp.mjs LIBRARY TRANSPORT [--url URL] [--token TOKEN] [--mode MODE] [-- COMMAND ...]
// LIBRARY is 1 (@modelcontextprotocol/sdk) or 2 (@modelcontextprotocol/client); TRANSPORT http or stdio.
import { parseArgs } from 'node:util'

const { values, positionals: [library, transport, ...command] } = parseArgs({
  allowPositionals: true,
  options: { url: { type: 'string' }, token: { type: 'string' }, mode: { type: 'string' } }
})
const paths = {
  1: ['sdk/client/index.js', 'sdk/client/streamableHttp.js', 'sdk/client/stdio.js'],
  2: ['client', 'client', 'client/stdio']
}[library]
const [{ Client }, { StreamableHTTPClientTransport }, { StdioClientTransport }] =
  await Promise.all(paths.map((path) => import(`@modelcontextprotocol/${path}`)))

const headers = values.token === undefined ? {} : { authorization: `Bearer ${values.token}` }
const wire = transport === 'http'
  ? new StreamableHTTPClientTransport(new URL('/mcp', values.url), { requestInit: { headers } })
  : new StdioClientTransport({
      command: command[0], args: command.slice(1), env: process.env, stderr: 'ignore'
    })
const client = new Client({ name: 'test', version: '1.0.0' },
  values.mode === undefined ? {} : { versionNegotiation: { mode: values.mode } })
await client.connect(wire)

const saw = {}
saw.server = client.getServerVersion().name
saw.version = client.getNegotiatedProtocolVersion?.() ?? wire.protocolVersion ?? null
saw.session = wire.sessionId !== undefined
const { tools } = await client.listTools()
saw.tools = tools.map(({ name }) => name)
const call = (name, args, options) => library === '1'
  ? client.callTool({ name, arguments: args }, undefined, options)
  : client.callTool({ name, arguments: args }, options)
saw.doctor = JSON.parse((await call('cluster_now', {})).content[0].text)
if (saw.tools.includes('tts')) {
  let progress = 0
  const said = 'A short sentence. '.repeat(4)
  const onprogress = () => { progress++ }
  const spoken = await call('tts', { model: 'svc/voice-en', text: said }, { onprogress })
  const [sound, facts] = spoken.content
  saw.sound = { type: sound.type, mimeType: sound.mimeType, bytes: Buffer.from(sound.data, 'base64').length }
  saw.facts = JSON.parse(facts.text)
  saw.progress = progress > 0
  const long = await call('tts', { model: 'svc/voice-en', text: said.repeat(40) })
  const [link] = long.content
  if (link.type === 'resource_link') {
    const { contents: [{ blob }] } = await client.readResource({ uri: link.uri })
    saw.link = { size: link.size, read: Buffer.from(blob, 'base64').length }
  }
  saw.wrong = await call('tts', { model: 'svc/voice-en', text: '', oops: 1 })
  const ends = new AbortController()
  const cancelled = call('tts', { model: 'svc/voice-en', text: said.repeat(400) }, { signal: ends.signal })
  setTimeout(() => { ends.abort() }, 300)
  saw.cancelled = await cancelled.then(() => false, () => true)
}
saw.unknown = await call('no_such_tool', {}).then((answer) => answer.isError === true, () => true)
await wire.terminateSession?.()
await client.close()
console.log(JSON.stringify(saw))
