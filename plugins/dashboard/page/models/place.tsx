import { useState } from 'preact/hooks'
import { ApiError } from '../api.js'
import { refOf } from '../cluster/node-actions.js'
import { nameOf, nodes } from '../known.js'
import { ask } from '../link.js'
import { useLoaded } from '../ui/loading.js'
import { Badge, Button, Confirm, Field, Tick, Trouble } from '../ui/parts.js'
import { bytes, count, toggled } from '../ui/text.js'
import { done } from '../ui/toast.js'
import { changes } from './live.js'
import { placeBody, queryOf, rowsOf, termsOf, waysOf } from './previews.js'
import type { Ask, Suggestion, Way } from './previews.js'

export function PlaceDialog ({ modelId }: { modelId: string }) {
  const [excluded, setExcluded] = useState<readonly string[]>([])
  const [context, setContext] = useState('')
  const [chosen, setChosen] = useState<string | null>(null)
  const [force, setForce] = useState(false)
  const tokens = Number(context)
  const problem = context !== '' && !(Number.isInteger(tokens) && tokens >= 2)
    ? 'A whole number of tokens from 2 on, or nothing.'
    : null
  const contextLength = context === '' || problem !== null ? null : tokens
  const asked = { contextLength, excluded }
  const { value, error, again } = useLoaded(async (signal) => await readWays(modelId, asked, signal),
    [modelId, contextLength, excluded.join(), changes.value])
  const usable = ({ fits, short }: Way): boolean => fits || (force && short)
  const way = value?.find((one) => one.key === chosen && usable(one)) ?? value?.find(usable) ?? null

  const apply = async (suggestion: Suggestion, from: Way): Promise<void> => {
    if (suggestion.kind === 'include') {
      const back = new Set(nodes.value.filter(({ id }) => suggestion.nodeIds.includes(id)).map(refOf))
      setExcluded(excluded.filter((ref) => !back.has(ref)))
    } else if (suggestion.kind === 'context_length') setContext(String(suggestion.contextLength))
    else if (suggestion.kind === 'undrain' || suggestion.kind === 'stop') {
      await changeCluster(suggestion)
      again()
    } else setChosen(keyAfter(from, suggestion))
  }
  const place = async (): Promise<void> => {
    const body = placeBody(way!, asked, force && !way!.fits)
    done((await ask('POST /place_instance', { body })).message)
  }
  return (
    <Confirm
      title={`Place ${modelId}`} disabled={way === null || problem !== null} onConfirm={place}
      action={way === null ? 'It fits nowhere' : way.fits ? 'Place it' : 'Place it all the same'}
    >
      <NodePicker excluded={excluded} onChange={setExcluded} />
      <div class="form">
        <Field
          label="Tokens of context" class="short" inputMode="numeric" value={context} problem={problem}
          hint="Empty for 2048 to 32768, as memory is free, at most what the model has."
          onText={(text) => { setContext(text.trim()) }}
        />
      </div>
      {error !== null && <Trouble error={error} again={again} />}
      {value !== null && (
        <fieldset class="options">
          <legend>Where it may go</legend>
          {value.map((one) => (
            <WayChoice
              key={one.key} way={one} chosen={one === way} usable={usable(one)}
              onChoose={() => { setChosen(one.key) }}
              onApply={async (change) => { await apply(change, one) }}
            />
          ))}
        </fieldset>
      )}
      {value?.some(({ short }) => short) === true && (
        <Tick checked={force} onChange={setForce}>
          <span>Let me place it where memory does not suffice; it may fail, and others with it</span>
        </Tick>
      )}
    </Confirm>
  )
}

/**
 * Requests all placements of a model. If none fits, the first one gets the changes that the node suggests.
 */
async function readWays (modelId: string, asked: Ask, signal: AbortSignal): Promise<Way[]> {
  const query = queryOf(modelId, asked)
  const ways = waysOf((await ask('GET /instance/previews', { query, signal })).previews)
  if (ways.some(({ fits }) => fits)) return ways
  const suggestions = await ask('GET /instance/placement', { query, signal }).then(() => [], suggestionsOf)
  return ways.map((way, i) => i === 0 ? { ...way, suggestions } : way)
}

function suggestionsOf (error: unknown): Suggestion[] {
  if (error instanceof ApiError && error.status === 400) {
    return (error.details['suggestions'] ?? []) as Suggestion[]
  }
  throw error
}

async function changeCluster (change: Suggestion & { kind: 'undrain' | 'stop' }): Promise<void> {
  if (change.kind === 'stop') await ask('DELETE /instance/{instance_id}', { params: [change.instanceId] })
  else await Promise.all(change.nodeIds.map((id) => ask('DELETE /nodes/{node}/drain', { params: [id] })))
}

function keyAfter ({ preview }: Way, to: Suggestion): string {
  const { sharding, instance_meta: meta, min_nodes: least } = preview
  return [
    to.kind === 'sharding' ? to.sharding : sharding,
    to.kind === 'instance_meta' ? to.instanceMeta : meta,
    to.kind === 'min_nodes' ? to.minNodes : least
  ].join(' ')
}

interface PickerProps { excluded: readonly string[], onChange: (refs: readonly string[]) => void }

function NodePicker ({ excluded, onChange }: PickerProps) {
  const list = nodes.value.filter(({ live, participation }) => live && participation !== 'management')
  if (list.length < 2) return null
  return (
    <fieldset class="options">
      <legend>
        Nodes that may take part{excluded.length > 0 && ` (${count(excluded.length, 'node')} left out)`}
      </legend>
      <div class="inline">
        {list.map((node) => {
          const ref = refOf(node)
          const used = !excluded.includes(ref)
          return (
            <button
              key={ref} type="button" class={`button toggle${used ? ' on' : ''}`} aria-pressed={used}
              title={used ? `Leave ${node.name} out` : `Let ${node.name} take part`}
              onClick={() => { onChange(toggled(excluded, ref, used)) }}
            >
              {node.name}
            </button>
          )
        })}
      </div>
    </fieldset>
  )
}

interface WayProps {
  way: Way, chosen: boolean, usable: boolean
  onChoose: () => void, onApply: (suggestion: Suggestion) => Promise<void>
}

function WayChoice ({ way, chosen, usable, onChoose, onApply }: WayProps) {
  const { title, fits, short, preview: { error, details }, sums, suggestions } = way
  const on = fits ? sums.map(({ nodeId }) => nameOf(nodeId)).join(', ') : ''
  return (
    <div class={`way${chosen ? ' chosen' : ''}`}>
      <Tick group="way" checked={chosen} disabled={!usable} onChange={onChoose}>
        <span>{title}{on !== '' && `: ${on}`}</span>
        <Badge level={fits ? 'ok' : short ? 'warn' : 'plain'}>
          {fits ? 'fits' : short ? 'too little memory' : 'not possible'}
        </Badge>
      </Tick>
      {fits && details?.why !== undefined && <p class="hint">{details.why}</p>}
      {error !== null && <p class="hint">{error}</p>}
      {sums.length > 0 && (chosen || !fits) && <Sums way={way} />}
      {suggestions.length > 0 && (
        <div class="inline">
          <span class="hint">It would fit with one of these changes:</span>
          {suggestions.map((one) => one.kind === 'free'
            ? <span key={one.text} class="hint">{one.text}</span>
            : <Button key={one.text} onClick={async () => { await onApply(one) }}>{one.text}</Button>)}
        </div>
      )}
    </div>
  )
}

function Sums ({ way }: { way: Way }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={`Memory: ${way.title}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">Node</th><th scope="col">Needs</th><th scope="col">Can use</th>
            <th scope="col">Left</th>
          </tr>
        </thead>
        <tbody>
          {way.sums.flatMap(rowsOf).map((sum) => {
            const { nodeId, what, neededBytes, usableBytes } = sum
            const { need, use } = termsOf(sum, bytes)
            const left = usableBytes - neededBytes
            return (
              <tr key={`${nodeId} ${what}`}>
                <td>{sum.name ?? nameOf(nodeId)}<p class="hint">{what}</p></td>
                <td>{bytes(neededBytes)}<p class="hint">{need}</p></td>
                <td>{bytes(usableBytes)}{use !== '' && <p class="hint">{use}</p>}</td>
                <td>{left > 0 ? bytes(left) : `${bytes(-left)} too little`}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
