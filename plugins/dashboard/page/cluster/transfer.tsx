import { nameOf } from '../known.js'
import { linkTo } from '../route.js'
import { Rows } from '../ui/list.js'
import { Badge, Progress, RowText } from '../ui/parts.js'
import { bytes, joined, percent, rate, span } from '../ui/text.js'
import { Bars, type Transfer } from '../state.js'

export const bars = new Bars()

export function amounts (
  done: number, total: number | null, speed: number | null = null, etaMs: number | null = null
): string {
  return joined([
    total === null ? (done > 0 ? bytes(done) : 'waiting') : `${bytes(done)} of ${bytes(total)}`,
    total === null ? null : percent(Math.floor(100 * done / total) / 100),
    speed === null || speed === 0 ? null : rate(speed),
    etaMs === null ? null : `${span(Math.max(1000, etaMs))} left`
  ])
}

export const TransferList = ({ list }: { list: readonly Transfer[] }) => (
  <Rows
    items={list} keyOf={({ nodeId, modelId }) => `${nodeId} ${modelId}`}
    row={(one) => <TransferRow one={one} />}
  />
)

export function TransferRow ({ one }: { one: Transfer }) {
  const { modelId, nodeId, attemptId, status, error } = one
  const name = nameOf(nodeId)
  const { done, total } = bars.at(`${nodeId} ${modelId}`, attemptId, one.done, one.total)
  return (
    <>
      <RowText hint={error ?? amounts(done, total, one.bytesPerSecond, one.etaMs)}>
        <a href={linkTo('models', modelId)}>{modelId}</a> to <a href={linkTo('cluster', nodeId)}>{name}</a>
      </RowText>
      {status === 'failed'
        ? <Badge level="error">failed</Badge>
        : <Progress label={`Copy of ${modelId} to ${name}`} done={done} total={total} />}
    </>
  )
}
