import { nameOf } from '../known.js'
import { Badge, Button, Tick } from '../ui/parts.js'
import { bytes } from '../ui/text.js'
import { rowsOf, termsOf } from './previews.js'
import type { Suggestion, Way } from './previews.js'

interface WayProps {
  way: Way, chosen: boolean, usable: boolean
  onChoose: () => void, onApply: (suggestion: Suggestion) => Promise<void>
}

export function WayChoice ({ way, chosen, usable, onChoose, onApply }: WayProps) {
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
                <td>
                  {sum.name ?? nameOf(nodeId)}
                  <p class="hint">{what}</p>
                </td>
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
