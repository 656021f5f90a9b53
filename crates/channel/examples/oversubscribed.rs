//! How ranks wait: a dissemination barrier of N ranks through the engine, and the processor time of a rank that waits long.
//!
//! `mpiexec -n 8 target/release/examples/oversubscribed [rounds]`; compare settings of `FERRULE_YIELD_OVERSUBSCRIBED_US`, `FERRULE_SPIN_US`, …

use base::Peer;
use channel::bootstrap::Bootstrap;
use channel::buffer::{RecvBuf, SendBuf};
use channel::opened::Opened;
use channel::transports::Transports;
use channel::wait;
use channel::waiting::Waiting;
use protocol::engine::{Address, Engine, Mode};
use protocol::matching::{Envelope, Pattern};
use protocol::policy::waiting::Idle;
use sys::clock::{cpu_ns, now_ns};

struct Rank {
    engine: Engine<Transports>,
    waiting: Waiting,
    me: u32,
    size: u32,
}

impl Rank {
    /// Polls until `done`, as the library waits.
    fn wait(&mut self, mut done: impl FnMut(&mut Engine<Transports>) -> bool) {
        let mut idle_polls = 0;
        while !done(&mut self.engine) {
            if self.engine.progress() {
                idle_polls = 0;
                continue;
            }
            idle_polls += 1;
            match self.waiting.waiter.idle(idle_polls) {
                Idle::Spin => std::hint::spin_loop(),
                Idle::Yield | Idle::ShortSleep => sys::wake::yield_cpu(),
                Idle::Sleep => {
                    self.waiting.arm(&mut self.engine);
                    if !self.engine.progress() {
                        wait::sleep(self.waiting.sleep_set().fd(), None);
                    }
                    self.waiting.disarm(self.engine.endpoints());
                }
            }
        }
    }

    fn exchange(&mut self, to: u32, from: u32, tag: i32) {
        let pattern = Pattern { context: 64, source: Some(from), tag: Some(tag) };
        let received = self.engine.post_recv(pattern, Some(Peer(from)), RecvBuf::empty());
        let address = Address { peer: Peer(to), envelope: Envelope { context: 64, source: self.me, tag } };
        let sent = self.engine.post_send(address, Mode::Standard, SendBuf::empty()).expect("peer lives");
        self.wait(|engine| engine.is_complete(received));
        self.engine.take(received);
        if let Some(op) = sent {
            self.wait(|engine| engine.take(op).is_some());
        }
    }

    fn barrier(&mut self) {
        let mut distance = 1;
        while distance < self.size {
            let (to, from) = ((self.me + distance) % self.size, (self.me + self.size - distance) % self.size);
            self.exchange(to, from, distance as i32);
            distance *= 2;
        }
    }
}

fn main() {
    let rounds: u32 = std::env::args().nth(1).map_or(2000, |a| a.parse().expect("a number"));
    let mut bootstrap = Bootstrap::from_environment().expect("started by mpiexec");
    let (me, size) = (bootstrap.job().rank.0, bootstrap.job().size);
    bootstrap.initialized().expect("agent lives");
    let Opened { endpoints, waiting, bootstrap, .. } = channel::open(bootstrap).expect("channels open");
    let mut rank = Rank { engine: Engine::new(endpoints), waiting, me, size };
    let mut times = Vec::new();
    for _ in 0..11 {
        rank.barrier();
        let start = now_ns();
        (0..rounds).for_each(|_| rank.barrier());
        times.push((now_ns() - start) as f64 / f64::from(rounds) / 1000.0);
    }
    times.sort_by(f64::total_cmp);
    let (wall, cpu) = (now_ns(), cpu_ns());
    if me == 0 {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    rank.barrier();
    let busy = (cpu_ns() - cpu) as f64 / (now_ns() - wall) as f64 * 100.0;
    if me <= 1 {
        println!(
            "rank {me}: barrier median {:.2} least {:.2} most {:.2} us; {busy:.2}% of a processor while waiting, {} sleeps, {} bells",
            times[5],
            times[0],
            times[10],
            base::counters::SLEEPS.value(),
            base::counters::BELLS.value()
        );
    }
    bootstrap.borrow_mut().finalize().expect("agent lives");
}
