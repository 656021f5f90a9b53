// Plays flows in SimGrid (S4U, fluid max-min model) and prints when each finishes: the independent check of ferrule_fabric.routing.fairness.
// Input, one object per line: "link <bytes per second>" (numbered from 0), then "flow <bytes> <link> <link> ..." (numbered from 0).
// Output: one line per flow with its finishing time in seconds.
// Each flow has a sender and a receiver host of its own with one explicit route, so that any path can be given.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <simgrid/s4u.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/crosstraffic:0");
  sg4::Engine::set_config("network/TCP-gamma:0");
  sg4::Engine::set_config("network/bandwidth-factor:1");
  sg4::Engine::set_config("network/latency-factor:1");
  if (argc != 2) {
    std::cerr << "usage: simgrid_flows FILE\n";
    return 2;
  }
  auto* zone = sg4::create_full_zone("fabric");
  std::vector<const sg4::Link*> links;
  std::vector<double> finished;
  struct Flow {
    sg4::Host* from;
    sg4::Host* to;
    double bytes;
  };
  std::vector<Flow> flows;
  std::ifstream input(argv[1]);
  for (std::string line; std::getline(input, line);) {
    std::istringstream words(line);
    std::string kind;
    double amount;
    words >> kind >> amount;
    if (kind == "link") {
      links.push_back(zone->create_link("l" + std::to_string(links.size()), amount)->set_latency(0)->seal());
      continue;
    }
    const std::string number = std::to_string(flows.size());
    auto* from = zone->create_host("s" + number, 1e9)->seal();
    auto* to = zone->create_host("r" + number, 1e9)->seal();
    std::vector<sg4::LinkInRoute> route;
    for (size_t link; words >> link;)
      route.emplace_back(links.at(link));
    zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
    flows.push_back({from, to, amount});
  }
  zone->seal();
  finished.resize(flows.size());
  for (size_t i = 0; i < flows.size(); i++) {
    auto* mailbox = sg4::Mailbox::by_name(std::to_string(i));
    sg4::Actor::create("send", flows[i].from, [mailbox, bytes = flows[i].bytes] { mailbox->put(new int(0), static_cast<uint64_t>(bytes)); });
    sg4::Actor::create("receive", flows[i].to, [mailbox, i, &finished] {
      mailbox->get_unique<int>();
      finished[i] = sg4::Engine::get_clock();
    });
  }
  engine.run();
  for (double moment : finished)
    std::printf("%.9g\n", moment);
  return 0;
}
